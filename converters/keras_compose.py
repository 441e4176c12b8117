"""New Keras files from an old one and converted cells: every other layer's arrays are carried as they are.

A cell's arrays go where the old ones were; between the two containers a layer's place follows from the model's config.
Knows containers; knows no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from numpy.typing import NDArray

from rnnbridge.converters.keras_blocks import Block, Found
from rnnbridge.converters.keras_classes import OWN_ARRAYS
from rnnbridge.converters.keras_hdf5 import LayeredFile, LayerGroup
from rnnbridge.converters.keras_model import Layer, snake_case, unique
from rnnbridge.converters.keras_v3 import OPTIMIZER, ClassedFile
from rnnbridge.errors import Incompatible
from rnnbridge.files.hdf5 import Group

Array = NDArray[Any]
CellArrays = Mapping[str, Array]
"""A cell's arrays by base name, in Keras's order: kernel, recurrent_kernel, bias."""
Replacements = Sequence[tuple[Found, Sequence[CellArrays]]]

_NOT_TRAINED = ("/moving_mean:0", "/moving_variance:0")


def layered_again(file: LayeredFile, new: Replacements) -> list[LayerGroup]:
    """The layers of an HDF5 file of groups per layer with some cells' arrays replaced."""
    layers = [list(layer.weights) for layer in file.layers]
    changes: dict[int, list[tuple[int, Block, CellArrays]]] = {}
    for found, cells in new:
        for block, arrays in zip(found.blocks, cells, strict=True):
            number, first = min(block.places.values())
            changes.setdefault(number, []).append((first, block, arrays))
    for number, replaced in changes.items():
        for first, block, arrays in sorted(replaced, key=lambda change: -change[0]):
            names = {base: layers[number][k][0] for base, (_, k) in block.places.items()}
            layers[number][first : first + len(names)] = [
                (names.get(base, f"{block.folder}/{base}:0"), array) for base, array in arrays.items()
            ]
    return [LayerGroup(layer.name, tuple(weights)) for layer, weights in zip(file.layers, layers, strict=True)]


def classed_again(file: ClassedFile, new: Replacements) -> Group:
    """A tree of groups named by class with some cells' arrays replaced."""
    root = _copied(file.root)
    root.groups.pop(OPTIMIZER, None)
    for found, cells in new:
        for block, arrays in zip(found.blocks, cells, strict=True):
            root.make(f"{block.folder}/vars").arrays.clear()
            _put_all(root, block.folder, list(arrays.values()))
    return root


def classed_from_layered(
    file: LayeredFile, model: Sequence[Layer], new: Replacements, known: Group | None = None
) -> Group:
    """A tree of groups named by class, by the config of the model.

    Args:
        known: such a tree of this model, from which layers are taken whose places are not known here.

    Raises:
        Incompatible: layers whose arrays have no known place in such a file.
    """
    root = Group()
    problems: list[str] = []
    cells = {found.recurrent.name: arrays for found, arrays in new}
    stored = {layer.name: number for number, layer in enumerate(file.layers)}
    taken = {place for found, _ in new for block in found.blocks for place in block.places.values()}
    for layer in model:
        number = stored.get(layer.name)
        weights = file.layers[number].weights if number is not None else ()
        rest = [pair for k, pair in enumerate(weights) if (number, k) not in taken]
        problems += list(_place_layer(root, layer, rest, cells, known or Group()))
    if problems:
        raise Incompatible("a .weights.h5 file cannot hold this model", problems)
    return root


def layered_from_classed(file: ClassedFile, model: Sequence[Layer], new: Replacements) -> list[LayerGroup]:
    """Groups per layer, by the config of the model.

    Raises:
        Incompatible: layers whose arrays have no known order in such a file.
    """
    cells = {found.recurrent.name: arrays for found, arrays in new}
    layers: list[LayerGroup] = []
    problems: list[str] = []
    for layer in model:
        trained: list[tuple[str, Array]] = []
        frozen: list[tuple[str, Array]] = []
        for leaf in layer.walk():
            for name, array in _leaf_weights(file.root, leaf, cells, problems):
                late = leaf.config.get("trainable") is False or name.endswith(_NOT_TRAINED)
                (frozen if late else trained).append((name, array))
        layers.append(LayerGroup(layer.name, tuple(trained + frozen)))
    if problems:
        raise Incompatible("an .h5 file cannot hold this model", problems)
    return layers


def classed_cells(root: Group, place: str, name: str, kinds: Sequence[str], cells: Sequence[CellArrays]) -> None:
    """Put a recurrent layer's cells under its place in a file of groups named by class."""
    root.make(f"{place}/vars").attrs["name"] = name.rpartition("/")[2]
    used: dict[str, int] = {}
    stacked = [f"cell/cells/{unique(snake_case(f'{kind}Cell'), used)}" for kind in kinds]
    for where, arrays in zip(_places(stacked, cells, "cell", "{}_layer/cell"), cells, strict=True):
        _put_all(root, f"{place}/{where}", list(arrays.values()))


def layered_cells(name: str, kinds: Sequence[str], cells: Sequence[CellArrays]) -> list[tuple[str, Array]]:
    """A recurrent layer's weights, under the names that tf_keras gives them."""
    used: dict[str, int] = {}
    stacked = [f"stacked_rnn_cells/{unique(snake_case(f'{kind}Cell'), used)}" for kind in kinds]
    scope = snake_case(kinds[0])
    scopes = _places(stacked, cells, f"{scope}_cell", f"{{}}_{scope}/{scope}_cell")
    return [
        (f"{name}/{where}/{base}:0", array)
        for where, arrays in zip(scopes, cells, strict=True)
        for base, array in arrays.items()
    ]


def _places(stacked: list[str], cells: Sequence[CellArrays], one: str, side: str) -> list[str]:
    """Where the cells go: the only one, the two directions of the only one, or a stack."""
    if len(stacked) > 1:
        return stacked
    return [one] if len(cells) == 1 else [side.format("forward"), side.format("backward")]


def _copied(group: Group) -> Group:
    groups = {name: _copied(child) for name, child in group.groups.items()}
    return Group(copy(group.attrs), groups, copy(group.arrays))


def _put_all(root: Group, place: str, arrays: Sequence[Array]) -> None:
    for number, array in enumerate(arrays):
        root.put(f"{place}/vars/{number}", array)


def _place_layer(
    root: Group,
    layer: Layer,
    rest: list[tuple[str, Array]],
    cells: Mapping[str, Sequence[CellArrays]],
    known: Group,
) -> Iterator[str]:
    """Put a top-level layer and all in it in its places. Yields what has none."""
    leaves = []
    for one in layer.walk():
        root.make(f"{one.place}/vars").attrs["name"] = one.name.rpartition("/")[2]
        if one.name in cells:
            classed_cells(root, one.place, one.name, _kinds(one), cells[one.name])
        elif not one.children:
            leaves.append(one)
    for leaf, arrays in _shared_out(leaves, rest, alone=not layer.children):
        if leaf is not None and leaf.kind not in OWN_ARRAYS and (group := known.group(leaf.place)) is not None:
            root.make(leaf.place).groups.update(_copied(group).groups)
            continue
        if leaf is None or leaf.kind not in OWN_ARRAYS:
            what = f"{leaf.name!r} is a {leaf.kind}" if leaf else f"nobody's arrays among those of {layer.name!r}"
            yield f"layer {what}: where Keras 3 keeps these arrays is not known here; write an .h5 file instead"
            continue
        _put_all(root, leaf.place, arrays)


def _shared_out(
    leaves: list[Layer], weights: list[tuple[str, Array]], alone: bool
) -> Iterator[tuple[Layer | None, list[Array]]]:
    """Give a group's weights to the layers in it, by the layer names in theirs."""
    if alone and weights:
        yield leaves[0] if leaves else None, [array for _, array in weights]
        return
    folders: dict[str, list[Array]] = {}
    for name, array in weights:
        folders.setdefault(name.rpartition("/")[0], []).append(array)
    for folder, arrays in folders.items():
        yield owner_of(folder, leaves), arrays


def owner_of(folder: str, leaves: Sequence[Layer]) -> Layer | None:
    """The layer among those of one group that the arrays in a folder belong to; None where the names do not say."""
    parts = folder.split("/")
    owners = [leaf for leaf in leaves if set(leaf.name.split("/")) & set(parts)]
    named = [leaf for leaf in owners if leaf.name.rpartition("/")[2] in parts] or owners
    return named[0] if len(named) == 1 else None


def _leaf_weights(
    root: Group, leaf: Layer, cells: Mapping[str, Sequence[CellArrays]], problems: list[str]
) -> list[tuple[str, Array]]:
    """A layer's own arrays under the names that tf_keras gives them."""
    if leaf.name in cells:
        return layered_cells(leaf.name, _kinds(leaf), cells[leaf.name])
    group = root.group(leaf.place)
    if group is None or leaf.children:
        return []
    below = [path for path, _ in group.walk() if not path.startswith(("vars/", "seed_generator/"))]
    numbered = group.groups.get("vars", Group()).arrays
    arrays = [numbered[key] for key in sorted(numbered, key=lambda key: (len(key), key))]
    names = _own_names(leaf)
    if below or len(arrays) > len(names):
        problems.append(
            f"layer {leaf.name!r} is a {leaf.kind}: in which order Keras reads its arrays is not known here"
        )
    return [(f"{leaf.name}/{name}:0", array) for name, array in zip(names, arrays, strict=False)]


def _own_names(leaf: Layer) -> list[str]:
    left_out = {"gamma": leaf.config.get("scale") is False, "beta": leaf.config.get("center") is False}
    return [name for name in OWN_ARRAYS.get(leaf.kind, ()) if not left_out.get(name)]


def _kinds(leaf: Layer) -> list[str]:
    return [cell.kind.removeprefix("CuDNN") for cell in leaf.recurrent.cells] if leaf.recurrent else []
