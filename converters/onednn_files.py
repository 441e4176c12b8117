"""oneDNN's (MKL-DNN's) memories in an `.npz` archive, under names that say their layouts. Imports no framework.

A primitive's memories are `weights_layer_ldigo`, `weights_iter_ldigo` (or both in ldgoi), `bias_ldgo`, and where it has
them `weights_peephole_ldgo`, `weights_projection_ldio` (ldoi), and its states `src_iter_ldnc`, `src_iter_c_ldnc`
(before 1.0 `src_iter_ldsnc`); those of several lie in a folder each. numpy.savez writes such an archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Format, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.converters.onednn_layer import USUAL_VERSION, Reader, lstm_rows, memories
from rnnbridge.converters.onednn_rows import CONVENTIONS, GRU, LBR_GRU, OLD_LSTM, TAGS, VANILLA_RNN
from rnnbridge.converters.onednn_states import NAMES, C, H, from_memories, to_memories
from rnnbridge.errors import ArgumentError, FormatError, Incompatible, LayoutError
from rnnbridge.files.narrow import narrowed
from rnnbridge.files.zip import member_names, npy_bytes, read_members, read_npy, write_members
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights

Array = NDArray[Any]
_UNNAMED = "rnn"
_WEIGHTS = r"weights_(?:layer|iter)_(?:ldigo|ldgoi)|bias_ldgo|weights_peephole_ldgo|weights_projection_(?:ldio|ldoi)"
_MEMBER = re.compile(rf"(?P<folder>(?:.*/)?)(?P<own>{_WEIGHTS}|{'|'.join(NAMES)})\.npy")
_SINGLE_PRECISION = "oneDNN's recurrent primitives take float32 and narrower numbers; these are float64"


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is an archive with a primitive's matrices."""
    return any("weights_layer_ld" in name and _MEMBER.fullmatch(name) for name in member_names(path, head))


def read(path: Path, settings: Settings) -> Bundle:
    """Read the primitives of an archive; their states are other arrays, "src_iter" and "src_iter_c" [L*D, N, .]."""
    folders: dict[str, dict[str, Array]] = {}
    others: dict[str, Array] = {}
    for member, content in read_members(path).items():
        array = read_npy(content, f"{path}: {member}") if member.endswith(".npy") else None
        if array is None:
            continue
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if match := _MEMBER.fullmatch(member):
            folders.setdefault(match["folder"], {})[match["own"]] = array
        else:
            others[member.removesuffix(".npy")] = array
    layers: dict[str, RNNWeights] = {}
    for folder, held in folders.items():
        name, states = folder.rstrip("/") or _UNNAMED, {own: held.pop(own) for own in NAMES if own in held}
        where = f"{path}: layer {name!r}"
        if name in layers:
            raise FormatError(f"{where} is there twice")
        layers[name] = Reader(where, name, settings).weights(held)
        try:
            others |= {f"{folder}{key}": state for key, state in from_memories(states).items()}
        except LayoutError as error:
            raise FormatError(f"{where}: {error}") from error
    return Bundle(layers, others, format="onednn", path=path)


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write every layer as a primitive of its own, a stack's layers too, in the layout and version that are set."""
    members: dict[str, bytes] = {}
    layers: list[WrittenLayer] = []
    carried: set[str] = set()
    notices: dict[str, None] = {}
    for source, weights in bundle.layers.items():
        plan = _plan(source, weights, options.settings)
        ready = plan.apply(weights)
        states, used = _states_of(bundle, source, plan.spec)
        carried |= used
        for number, single in enumerate(ready.split()):
            target = _target(bundle, source, number, plan.spec.num_layers, {layer.target for layer in layers})
            stored, arrays = narrowed(memories(plan.row, single), _storage(ready))
            notices |= {_SINGLE_PRECISION: None} if stored == "float64" else {}
            arrays |= _states_at(states, number, single.spec, old=_is_old(options.settings, source))
            folder = "" if target == _UNNAMED and len(bundle.layers) == 1 else f"{target}/"
            members |= {f"{folder}{name}.npy": npy_bytes(array) for name, array in arrays.items()}
            line, settings = _constructor(plan.row, single.spec), _to_read_back(plan.row, single.spec)
            layers.append(WrittenLayer(source, target, plan, line, settings))
    write_members(path, members)
    left = tuple(name for name in bundle.tensors if name not in carried)
    return Written(tuple(layers), not_converted=left, notices=tuple(notices))


FORMATS = (
    Format(
        name="onednn",
        framework="onednn",
        suffixes=(".onednn.npz",),
        reads="an archive of memories by the names of their layouts: ldigo or ldgoi, ldgo; MKL-DNN's from 0.14 on",
        writes="the same, a primitive for each layer; tag=ldgoi and version=0.16 can be set",
        sniff=sniff,
        read=read,
        write=write,
        rows=CONVENTIONS,
    ),
)


def _plan(name: str, weights: RNNWeights, settings: Settings) -> rewrite.Plan:
    tag, version = settings.get("tag", name) or "ldigo", settings.get("version", name) or USUAL_VERSION
    if tag not in TAGS:
        raise ArgumentError(f"setting tag={tag!r}; it is {' or '.join(TAGS)}")
    rows = (lstm_rows(version)[tag], *(kind[tag] for kind in (GRU, LBR_GRU, VANILLA_RNN)))
    try:
        return rewrite.plan(weights, rows)
    except Incompatible as error:
        raise Incompatible(f"layer {name!r}: oneDNN cannot hold it", error.reasons) from error


def _is_old(settings: Settings, name: str) -> bool:
    """Whether the version that is set has states in one memory."""
    return (settings.get("version", name) or USUAL_VERSION).startswith("0.")


def _states_of(bundle: Bundle, source: str, spec: RNNSpec) -> tuple[dict[str, Array], set[str]]:
    """The states of a layer among a bundle's other arrays, and what they are called there."""
    folder = "" if source == _UNNAMED and H in bundle.tensors else f"{source}/"
    held = {key: f"{folder}{key}" for key in (H, C) if f"{folder}{key}" in bundle.tensors}
    states = {key: bundle.tensors[full] for key, full in held.items()}
    widths = {H: spec.state_size, C: spec.hidden_size}
    first = (spec.num_layers * spec.num_directions,)
    fit = all(one.ndim == 3 and one.shape[:1] + one.shape[2:] == (*first, widths[key]) for key, one in states.items())
    return (states, set(held.values())) if fit else ({}, set())


def _states_at(states: Mapping[str, Array], layer: int, spec: RNNSpec, *, old: bool) -> dict[str, Array]:
    """The memories of one layer's states."""
    begin, count = layer * spec.num_directions, spec.num_directions
    return to_memories({key: one[begin : begin + count] for key, one in states.items()}, count, old=old)


def _storage(weights: RNNWeights) -> str:
    """NumPy has float16; bfloat16 is written as the float32 it was widened to."""
    return "float16" if weights.origin.storage_dtype == "float16" else ""


def _target(bundle: Bundle, name: str, number: int, layers: int, taken: set[str]) -> str:
    base = re.sub(r"[^\w./-]", "_", name).strip("./") or _UNNAMED
    target = base if layers == 1 else f"{base}_l{number}"
    while target in taken:
        target += "_"
    return target


def _constructor(row: Convention, spec: RNNSpec) -> str:
    """What a primitive descriptor is given."""
    kind = row.layer.partition(" ")[0].partition("@")[0]
    words = {"forward": "unidirectional_left2right", "reverse": "unidirectional_right2left"}
    direction = words.get(spec.direction, f"bidirectional_{spec.merge}")
    names = {"tanh": "eltwise_tanh", "relu": "eltwise_relu", "sigmoid": "eltwise_logistic"}
    activation = f"algorithm::{names[str(spec.activations[0])]}, " if spec.cell == "rnn" else ""
    sizes = f"channels {spec.input_size} -> {spec.hidden_size}"
    return f"dnnl::{kind}_forward, {activation}rnn_direction::{direction}, weights {row.layer[-5:]}, {sizes}"


def _to_read_back(row: Convention, spec: RNNSpec) -> dict[str, str]:
    """What a memory does not say."""
    said = {"version": "0.16"} if row in OLD_LSTM.values() else {}
    said |= {"merge": spec.merge} if spec.num_directions == 2 else {"reverse": str(spec.direction == "reverse").lower()}
    return said | ({"activation": str(spec.activations[0])} if spec.cell == "rnn" else {})
