"""Layers other than recurrent ones whose activation is a hard sigmoid: their arrays scaled for the one of Keras 3.

Both are clip(a x + 0.5), so what the activation gets is scaled by the quotient of the two a, rounded once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.converters.keras_classes import LINEAR, OWN_ARRAYS, RENAMED_CLASSES
from rnnbridge.converters.keras_compose import owner_of
from rnnbridge.converters.keras_hdf5 import LayeredFile, LayerGroup
from rnnbridge.converters.keras_model import Layer
from rnnbridge.converters.keras_rows import activation_named
from rnnbridge.converters.keras_v3 import ClassedFile
from rnnbridge.files.hdf5 import Group

Array = NDArray[Any]


def factor() -> float:
    """By what Keras 3's hard sigmoid needs more than Keras 2's: 1.2."""
    old, new = (activation_named("hard_sigmoid", version).alpha for version in (2, 3))
    return float(old or 1) / float(new or 1)


def scaled(file: LayeredFile | ClassedFile, names: Collection[str]) -> LayeredFile | ClassedFile:
    """The file with the arrays of the layers of these names scaled."""
    leaves = [leaf for layer in file.model or [] for leaf in layer.walk() if leaf.name in names]
    if not leaves:
        return file
    if isinstance(file, ClassedFile):
        return replace(file, root=_scaled_tree(file.root, leaves))
    tops = {layer.name: list(layer.walk()) for layer in file.model or []}
    return replace(file, layers=tuple(_scaled_group(group, tops.get(group.name, []), names) for group in file.layers))


def _scaled_group(group: LayerGroup, inside: Sequence[Layer], names: Collection[str]) -> LayerGroup:
    leaves = [leaf for leaf in inside if not leaf.children]
    weights = []
    for name, array in group.weights:
        folder, _, base = name.rpartition("/")
        leaf = leaves[0] if len(inside) == 1 else owner_of(folder, leaves)
        hit = leaf is not None and leaf.name in names and _is_linear(leaf, base.partition(":")[0])
        weights.append((name, _times(array) if hit else array))
    return replace(group, weights=tuple(weights))


def _is_linear(leaf: Layer, base: str) -> bool:
    kind = RENAMED_CLASSES.get(leaf.kind, leaf.kind)
    return any(base == name or base.endswith({"kernel": "_W", "bias": "_b"}.get(name, name)) for name in LINEAR[kind])


def _scaled_tree(root: Group, leaves: Sequence[Layer]) -> Group:
    places = {
        f"{leaf.place}/vars/{number}"
        for leaf in leaves
        for number, name in enumerate(OWN_ARRAYS[leaf.kind])
        if name in LINEAR[leaf.kind]
    }
    return _copied(root, "", places)


def _copied(group: Group, path: str, places: Collection[str]) -> Group:
    arrays = {name: _times(array) if path + name in places else array for name, array in group.arrays.items()}
    groups = {name: _copied(child, f"{path}{name}/", places) for name, child in group.groups.items()}
    return Group(group.attrs, groups, arrays)


def _times(array: Array) -> Array:
    return (array.astype(np.float64) * factor()).astype(array.dtype)
