"""The `.weights.h5` files of Keras 3 and tf_keras, and the `.keras` archives around them: groups named by class.

Knows where arrays lie; what they mean is keras_blocks' and keras_reading's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from rnnbridge.converters.keras_blocks import MATRICES, Block, Found
from rnnbridge.converters.keras_model import Cell, Layer, Recurrent, layers_of, snake_case, unique
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import FormatError
from rnnbridge.files.hdf5 import Group, read_hdf5
from rnnbridge.files.zip import read_members

WEIGHTS, CONFIG, METADATA = "model.weights.h5", "config.json", "metadata.json"
OPTIMIZER = "optimizer"
_MOST_CELLS = 6
_NAMES = (*MATRICES, "bias")
_OLD_CONTAINER = "_layer_checkpoint_dependencies"  # what TensorFlow 2.12 and 2.13 called "layers"


@dataclass(frozen=True)
class ClassedFile:
    """What such a file holds; `config` is the model's, as parsed, where there is one."""

    version: Version
    root: Group
    model: list[Layer] | None
    found: list[Found]
    config: Any = None


def read_archive(path: Path) -> ClassedFile:
    """Read a `.keras` archive.

    Raises:
        FormatError: a damaged archive, a member that is missing, or a config that its arrays do not fit.
    """
    members = read_members(path, only=(METADATA, CONFIG, WEIGHTS))
    metadata, config = _json(members, METADATA), _json(members, CONFIG)
    root = read_hdf5(members[WEIGHTS], f"{path}: {WEIGHTS}", skip=(OPTIMIZER,))
    version = Version(str(metadata.get("keras_version", "")))
    return described(root, config, version)


def described(root: Group, config: Any, version: Version) -> ClassedFile:
    """A tree of groups named by class with the config of its model. Raises FormatError where they do not fit."""
    model = layers_of(config)
    return ClassedFile(version, root, model, list(_by_config(root, model)), config)


def read_classed(root: Group) -> ClassedFile:
    """Take a `.weights.h5` file apart; its groups are named by class, its layers' names are in it since Keras 3.

    Raises:
        FormatError: it has no layers.
    """
    if not {"layers", _OLD_CONTAINER} & root.groups.keys():
        raise FormatError("an HDF5 file without layer_names and without a group layers: not one that Keras writes")
    # Since 3.15 Keras writes the names of layers; tf_keras and what came before do not.
    version = Version("3" if _has_names(root) else "")
    return ClassedFile(version, root, None, list(_walk(root, "", ())))


def _json(members: dict[str, bytes], name: str) -> dict[str, Any]:
    try:
        found = json.loads(members[name])
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} in the archive cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"{name} in the archive is no JSON object")
    return found


def _group(root: Group, place: str) -> tuple[str, Group] | None:
    """The group at a place, under the name that the file's time gave it."""
    old = place.replace("layers/", f"{_OLD_CONTAINER}/")
    return next(((path, group) for path in (place, old) if (group := root.group(path)) is not None), None)


def _by_config(root: Group, model: list[Layer]) -> Iterator[Found]:
    for layer in (one for top in model for one in top.walk()):
        if layer.recurrent is None:
            continue
        at = _group(root, layer.place)
        blocks = tuple(_blocks(at[1], at[0], layer.recurrent)) if at else ()
        if not layer.recurrent.obstacle and len(blocks) != layer.recurrent.blocks:
            raise FormatError(
                f"layer {layer.name!r}: the config says {layer.recurrent.said}, and under {layer.place!r} there are "
                f"the arrays of {len(blocks)} cell(s) instead of {layer.recurrent.blocks}"
            )
        yield Found(layer.recurrent, blocks)


def _blocks(group: Group, path: str, unit: Recurrent) -> Iterator[Block]:
    sides = ("forward_layer", "backward_layer") if unit.bidirectional else ("",)
    for side in sides:
        here = group.group(side)
        if here is None:
            continue
        used: dict[str, int] = {}
        names = [f"cell/cells/{unique(snake_case(f'{cell.kind}Cell'), used)}" for cell in unit.cells]
        for name in names if here.group("cell/cells") is not None else ["cell"]:
            place = "/".join(part for part in (path, side, name) if part)
            if (block := _block(here.group(f"{name}/vars"), place)) is not None:
                yield block


def _block(variables: Group | None, place: str) -> Block | None:
    if variables is None or not 2 <= len(variables.arrays) <= len(_NAMES):
        return None
    stored = [variables.arrays.get(str(k)) for k in range(len(variables.arrays))]
    arrays = {name: array for name, array in zip(_NAMES, stored, strict=False) if array is not None}
    if len(arrays) != len(stored) or any(arrays[name].ndim != 2 for name in MATRICES):
        return None
    return Block(place, arrays, {name: f"{place}/vars/{k}" for k, name in enumerate(arrays)})


def _walk(group: Group, path: str, names: tuple[str, ...]) -> Iterator[Found]:
    """The recurrent layers below a group, from the groups' names alone."""
    if (found := _directions(group, path, names) or _cells(group, path, names)) is not None:
        yield found
        return
    for child in sorted(group.groups, key=_numbers_by_value):
        inner = group.groups[child]
        own = () if child in ("layers", _OLD_CONTAINER) else (_name(inner, child),)
        yield from _walk(inner, f"{path}/{child}".lstrip("/"), names + own)


def _directions(group: Group, path: str, names: tuple[str, ...]) -> Found | None:
    if not {"forward_layer", "backward_layer"} <= group.groups.keys():
        return None
    unit = Recurrent("/".join(names), "", (Cell(""),), bidirectional=True)
    blocks = tuple(_blocks(group, path, unit))
    return Found(unit, blocks) if len(blocks) == 2 else None


def _cells(group: Group, path: str, names: tuple[str, ...]) -> Found | None:
    if "cell" not in group.groups:
        return None
    cells = sorted(group.groups["cell"].groups.get("cells", Group()).groups, key=_numbers_by_value)
    places = [f"cell/cells/{cell}" for cell in cells] or ["cell"]
    found = [_block(group.group(f"{place}/vars"), f"{path}/{place}") for place in places]
    blocks = [block for block in found if block is not None]
    if not blocks or len(blocks) != len(found):
        return None
    return Found(Recurrent("/".join(names), "", (Cell(""),) * len(blocks)), _chained(blocks))


def _chained(blocks: list[Block]) -> tuple[Block, ...]:
    """Stacked cells of several classes lie by class: put them so that each reads what the one below gives."""
    for order in permutations(blocks) if len(blocks) <= _MOST_CELLS else ():
        if all(upper.arrays["kernel"].shape[0] == lower.units for lower, upper in pairwise(order)):
            return order
    return tuple(blocks)


def _name(group: Group, place: str) -> str:
    """A layer's own name where the file has it (since Keras 3.15), else its group's."""
    own = group.groups["vars"].attrs.get("name") if "vars" in group.groups else None
    return own if isinstance(own, str) and own else place


def _has_names(group: Group) -> bool:
    own = group.groups["vars"].attrs.get("name") if "vars" in group.groups else None
    return own is not None or any(map(_has_names, group.groups.values()))


def _numbers_by_value(name: str) -> list[tuple[int, str]]:
    """Sorts "lstm_10" after "lstm_9", which HDF5 does not."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
