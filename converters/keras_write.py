"""Writing Keras weights: which row holds a layer, where its arrays go, and what a user pastes to have the layer.

Whole files are carried where the source is Keras's own; from elsewhere only the recurrent layers are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.catalogue import Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_blocks import Found
from rnnbridge.converters.keras_compose import (
    CellArrays,
    classed_again,
    classed_cells,
    classed_from_layered,
    layered_again,
    layered_cells,
    layered_from_classed,
)
from rnnbridge.converters.keras_constructor import constructor
from rnnbridge.converters.keras_hdf5 import LayeredFile, LayerGroup, layered_tree, read_layered
from rnnbridge.converters.keras_memory import ATTRIBUTE, Memory, note
from rnnbridge.converters.keras_model import snake_case, unique
from rnnbridge.converters.keras_rows import CUDNN_ROWS, LAYER_ROWS, keras_class
from rnnbridge.converters.keras_source import Carried, File, contents
from rnnbridge.converters.keras_v3 import read_classed
from rnnbridge.converters.keras_version import Version, asked_version
from rnnbridge.errors import Incompatible
from rnnbridge.files.hdf5 import Group, write_hdf5
from rnnbridge.files.narrow import narrowed
from rnnbridge.rewrite import Plan, plan
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
CLASSED = ".weights.h5"
_VERSIONS = {2: "2.15.0", 3: "3.0.0"}  # what a file says that comes from elsewhere; Keras takes no version for Keras 1
_NO_ARCHIVE = (
    "a .keras archive holds a whole model with its config, which is not written yet: write .weights.h5 (Keras 3) "
    "or .h5 (tf_keras, Keras 2 and 3) and load it into your model with model.load_weights"
)


@dataclass(frozen=True)
class Ready:
    """A layer of the bundle, ready to be written.

    Args:
        source: its name in the bundle.
        plan: how it fits its row.
        singles: its layers, one Keras object each.
        cells: the arrays of each, one set per direction.
    """

    source: str
    plan: Plan
    singles: list[RNNSpec]
    cells: list[list[CellArrays]]

    @property
    def kind(self) -> str:
        """The class of layer, by which its arrays are named."""
        return keras_class(self.plan.row).removeprefix("CuDNN")


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write `.weights.h5` as Keras 3's, any other suffix as an HDF5 file of a group per layer.

    Raises:
        Incompatible: a layer that Keras cannot hold, a model that the container cannot, or a whole model asked for.
    """
    if options.suffix == ".keras":
        raise Incompatible(f"{path.name} is not written", [_NO_ARCHIVE])
    classed = options.suffix == CLASSED
    version = _version(bundle, options.settings, classed)
    return _write(bundle, path, options, LAYER_ROWS[3 if version.major >= 3 else 2], version, classed)


def write_cudnn(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write an HDF5 file in the layout of CuDNNLSTM and CuDNNGRU, Keras 2's layers for GPUs.

    Raises:
        Incompatible: a layer that they cannot hold.
    """
    if path.name.endswith((".keras", CLASSED)):  # endings of the format keras, so that options.suffix has them not
        raise Incompatible(f"{path.name} is not written", ["Keras 3 has no cuDNN layers; give a name that ends in .h5"])
    return _write(bundle, path, options, CUDNN_ROWS, _version(bundle, options.settings, False), False)


def _version(bundle: Bundle, settings: Settings, classed: bool) -> Version:
    """The version of Keras that the file is for: it decides which hard sigmoid a name means."""
    asked = settings.get("keras_version")
    said = asked_version(asked) if asked is not None else _said_by_the_source(bundle)
    if classed:
        return Version(_VERSIONS[3])
    if said is not None:
        return said if said.major >= 2 and said.text else Version(_VERSIONS[max(said.major, 2)])
    only_3 = {str(one) for slot in LAYER_ROWS[3][0].activations for one in slot} - set(LAYER_ROWS[2][0].activations[0])
    has = {str(one) for weights in bundle.layers.values() for one in weights.spec.activations}
    return Version(_VERSIONS[3 if has & only_3 else 2])


def _said_by_the_source(bundle: Bundle) -> Version | None:
    """The version of the Keras file that a bundle was read from, if there was one, and one that is read."""
    found = bundle.carried.file.version if isinstance(bundle.carried, Carried) else None
    return found if found is not None and found.is_read else None


def _write(
    bundle: Bundle, path: Path, options: WriteOptions, rows: Sequence[Convention], version: Version, classed: bool
) -> Written:
    ready = _ready(bundle, rows)
    notices = ["Keras's layers take [N, T, I]"] if options.batch_first is False else []
    carried = bundle.carried if isinstance(bundle.carried, Carried) else None
    whole = carried is not None and carried.found.keys() == bundle.layers.keys()
    if carried is not None and not whole:
        notices.append("only some of the file's layers were asked for, so its other arrays are left out")
    if whole and carried is not None and carried.file.model is None and carried.is_layered == classed:
        whole = False
        notices.append("the source does not say its layers' classes, so only the recurrent layers are written")
    tree = _whole(carried, ready, classed, version) if whole and carried else _alone(ready, classed, version)
    _noted(tree, ready)
    targets = _targets(tree)
    write_hdf5(tree, path)
    layers = tuple(
        WrittenLayer(one.source, targets[id(_first(cells))], one.plan, constructor(one.plan.row, spec))
        for one in ready
        for spec, cells in zip(one.singles, one.cells, strict=True)
    )
    return Written(layers, () if whole else tuple(bundle.tensors), tuple(notices))


def _ready(bundle: Bundle, rows: Sequence[Convention]) -> list[Ready]:
    out: list[Ready] = []
    reasons: list[str] = []
    for name, weights in bundle.layers.items():
        try:
            out.append(_one_ready(name, weights, rows))
        except Incompatible as error:
            reasons += [f"layer {name!r}: {reason}" for reason in error.reasons]
    if reasons:
        raise Incompatible(f"{', '.join(keras_class(row) for row in rows)} cannot hold this", reasons)
    return out


def _one_ready(name: str, weights: RNNWeights, rows: Sequence[Convention]) -> Ready:
    found = plan(weights, rows)
    singles = found.apply(weights).split()
    cells = [_cells(found.row, one.spec, *_stored(found.row, one)) for one in singles]
    return Ready(name, found, [one.spec for one in singles], cells)


def _stored(row: Convention, weights: RNNWeights) -> tuple[str, dict[str, Array]]:
    return narrowed(row.write(weights.arrays, weights.spec), weights.origin.storage_dtype)


def _cells(row: Convention, spec: RNNSpec, dtype: str, arrays: dict[str, Array]) -> list[CellArrays]:
    if dtype == "bfloat16":
        arrays = {name: array.view("V2") for name, array in arrays.items()}
    return [
        {
            row.array_name(slot, 0, 0): arrays[row.array_name(slot, 0, direction)]
            for slot in row.slots
            if row.array_name(slot, 0, direction) in arrays
        }
        for direction in range(spec.num_directions)
    ]


def _whole(carried: Carried, ready: Sequence[Ready], classed: bool, version: Version) -> Group:
    by_source = {one.source: one for one in ready}
    cells: dict[int, tuple[Found, list[CellArrays]]] = {}
    for name, found in carried.found.items():
        new = [arrays for single in by_source[name].cells for arrays in single]
        cells.setdefault(id(found), (found, []))[1].extend(new)
    file, new_cells = carried.file, list(cells.values())
    if isinstance(file, LayeredFile):
        if classed:
            return classed_from_layered(file, file.model or [], new_cells)
        return layered_tree(layered_again(file, new_cells), version)
    if classed:
        return classed_again(file, new_cells)
    return layered_tree(layered_from_classed(file, file.model or [], new_cells), version)


def _alone(ready: Sequence[Ready], classed: bool, version: Version) -> Group:
    """A file of recurrent layers alone, one per layer of a stack."""
    root, stored, used = Group(), [], dict[str, int]()
    for name, kind, cells in _single_layers(ready):
        if classed:
            classed_cells(
                root,
                f"layers/{unique(snake_case(kind if len(cells) == 1 else 'Bidirectional'), used)}",
                name,
                [kind],
                cells,
            )
        else:
            stored.append(LayerGroup(name, tuple(layered_cells(name, [kind], cells))))
    return root if classed else layered_tree(stored, version)


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
    specs = {id(_first(cells)): spec for one in ready for spec, cells in zip(one.singles, one.cells, strict=True)}
    units = {
        found.recurrent.name: [specs[id(_first([block.arrays]))] for block in found.blocks[:: found.step]]
        for found in _opened(tree).found
        if all(id(_first([block.arrays])) in specs for block in found.blocks[:: found.step])
    }
    tree.attrs[ATTRIBUTE] = note(units)


def _targets(tree: Group) -> dict[int, str]:
    """The id of a cell's first array -> the name that reading this tree gives its layer."""
    carried = contents(_opened(tree), Settings({}), Memory(tree)).carried
    return {id(_first([block.arrays])): name for name in carried.found for block in carried.blocks(name)}


def _first(cells: Sequence[CellArrays]) -> Array:
    return next(iter(cells[0].values()))
