"""Writing Keras weights: which row holds a layer, where its arrays go, and what a user pastes to have the layer.

Whole files are carried where the source is Keras's own; from elsewhere only the recurrent layers are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_compose import (
    CellArrays,
    classed_cells,
    layered_cells,
)
from rnnbridge.converters.keras_constructor import constructor
from rnnbridge.converters.keras_hdf5 import LayerGroup, layered_tree, read_layered
from rnnbridge.converters.keras_memory import ATTRIBUTE, Memory, note
from rnnbridge.converters.keras_model import snake_case, unique
from rnnbridge.converters.keras_ready import Ready, first_of, made_ready
from rnnbridge.converters.keras_rows import CUDNN_ROWS, LAYER_ROWS
from rnnbridge.converters.keras_source import Carried, File, contents, take_up
from rnnbridge.converters.keras_target import ARCHIVE, CLASSED, Target, old_target_of, target_of
from rnnbridge.converters.keras_v3 import described, read_classed
from rnnbridge.converters.keras_whole import Model, Whole, with_config, write_archive
from rnnbridge.errors import Incompatible
from rnnbridge.files.hdf5 import Group, write_hdf5
from rnnbridge.weights import Bundle

Array = NDArray[Any]


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write `.keras` and `.weights.h5` as Keras 3's, any other suffix as an HDF5 file of a group per layer.

    Raises:
        Incompatible: a layer that Keras cannot hold, or a model that the container cannot.
    """
    target = target_of(bundle, options)
    return _write(bundle, path, options, LAYER_ROWS[3 if target.version.major >= 3 else 2], target)


def write_old(bundle: Bundle, path: Path, options: WriteOptions, *, cudnn: bool = False) -> Written:
    """Write an HDF5 file for Keras 2.3.1 and tf_keras, in the layout of CuDNNLSTM and CuDNNGRU or of the usual layers.

    Raises:
        Incompatible: a layer that they cannot hold.
    """
    if path.name.endswith((ARCHIVE, CLASSED)):  # endings of the format keras, so that options.suffix has them not
        raise Incompatible(f"{path.name} is not written", ["it would be Keras 3's; give a name that ends in .h5"])
    return _write(bundle, path, options, CUDNN_ROWS if cudnn else LAYER_ROWS[2], old_target_of(bundle, cudnn=cudnn))


def _write(bundle: Bundle, path: Path, options: WriteOptions, rows: Sequence[Convention], target: Target) -> Written:
    ready = made_ready(bundle, rows, bfloat16=target.classed)
    notices = ["Keras's layers take [N, T, I]"] if options.batch_first is False else []
    carried = bundle.carried if target.whole and isinstance(bundle.carried, Carried) else None
    if carried:
        take_up(bundle.tensors, carried)
    whole = Whole(carried, bundle, ready, target) if carried else None
    model = whole.model() if whole and target.model else None
    weights = whole.weights(model) if whole else _alone(ready, target)
    file = _published(path, weights, model, target, ready)
    targets = _targets(file, ready)
    layers = tuple(
        WrittenLayer(one.source, targets[id(first_of(cells))], one.plan, constructor(one.plan.row, spec))
        for one in ready
        for spec, cells in zip(one.singles, one.cells, strict=True)
    )
    left_out = () if target.whole else tuple(bundle.tensors)
    notices += [*target.notices, *(model.notices if model else ())]
    return Written(layers, left_out, tuple(notices), model.layers if model else ())


def _published(path: Path, weights: Group, model: Model | None, target: Target, ready: Sequence[Ready]) -> File:
    """Write the file. Returns what reading it will give."""
    if model is None:
        _noted(weights, ready)
        write_hdf5(weights, path)
        return _opened(weights)
    if target.archive:
        write_archive(path, weights, model, target.version)
        return described(weights, model.config, target.version)
    root = with_config(weights, model)
    write_hdf5(root, path)
    return read_layered(root)


def _alone(ready: Sequence[Ready], target: Target) -> Group:
    """A file of recurrent layers alone, one per layer of a stack."""
    root, stored, used = Group(), [], dict[str, int]()
    for name, kind, cells in _single_layers(ready):
        if target.classed:
            classed_cells(
                root,
                f"layers/{unique(snake_case(kind if len(cells) == 1 else 'Bidirectional'), used)}",
                name,
                [kind],
                cells,
            )
        else:
            stored.append(LayerGroup(name, tuple(layered_cells(name, [kind], cells))))
    return root if target.classed else layered_tree(stored, target.version)


def _single_layers(ready: Sequence[Ready]) -> Iterator[tuple[str, str, list[CellArrays]]]:
    taken: set[str] = set()
    for one in ready:
        base = re.sub(r"_l0$", "", "/".join(part for part in one.source.split("/") if part)) or "rnn"
        for number, cells in enumerate(one.cells):
            name = f"{base}_l{number}" if len(one.cells) > 1 else base
            while name in taken:
                name += "_"
            taken.add(name)
            yield name, one.kind, cells


def _opened(tree: Group) -> File:
    return read_layered(tree) if "layer_names" in tree.attrs else read_classed(tree)


def _noted(tree: Group, ready: Sequence[Ready]) -> None:
    """Note in the tree what its arrays do not say, under the names that its layers have in it."""
    _noted_in(tree, _opened(tree), ready)


def _noted_in(tree: Group, file: File, ready: Sequence[Ready]) -> None:
    specs = {id(first_of(cells)): spec for one in ready for spec, cells in zip(one.singles, one.cells, strict=True)}
    units = {
        found.recurrent.name: [specs[id(first_of([block.arrays]))] for block in found.blocks[:: found.step]]
        for found in file.found
        if all(id(first_of([block.arrays])) in specs for block in found.blocks[:: found.step])
    }
    tree.attrs[ATTRIBUTE] = note(units)


def _targets(file: File, ready: Sequence[Ready]) -> dict[int, str]:
    """The id of a cell's first array -> the name that reading this file gives its layer."""
    notes = Group()
    _noted_in(notes, file, ready)
    carried = contents(file, Settings({}), Memory(notes)).carried
    return {id(first_of([block.arrays])): name for name in carried.found for block in carried.blocks(name)}
