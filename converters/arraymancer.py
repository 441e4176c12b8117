"""Arraymancer's GRU: the five tensors that its `gru_forward` takes, as `.npy` files. Imports no framework.

Read is a set of files that lie together, `W3s0.npy`, `W3sN.npy`, `U3s.npy`, `bW3s.npy`, `bU3s.npy`, any text before
these names; or one archive of the five. Written is the archive: unpacked, each is a file for Arraymancer's `read_npy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.catalogue import Format, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.errors import FormatError, Incompatible, LayoutError, SpecError
from rnnbridge.files.zip import member_names, npy_bytes, read_members, read_npy, write_members
from rnnbridge.slot import Slot
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Bundle, Origin, RNNWeights

Array = NDArray[Any]
_NAME = "rnn"
_FIRST, _UPPER, _RECURRENT, _BIASES = "W3s0", "W3sN", "U3s", ("bW3s", "bU3s")
_ALL = (_FIRST, _UPPER, _RECURRENT, *_BIASES)
_FLOATS = ("float32", "float64")

GRU = Convention(
    name="arraymancer.GRU",
    cell="gru",
    gates="rzn",
    slots=(
        Slot("W3s{layer}", "weight_ih", "(g o) i"),
        Slot(_RECURRENT, "weight_hh", "l (g o) i"),
        Slot("bW3s", "bias_ih", "l (g o)"),
        Slot("bU3s", "bias_hh", "l (g o)"),
    ),
    source=(
        "src/arraymancer/nn_primitives/nnp_gru.nim (gru_inference, gru_cell_inference): shapes in its doAsserts, gates "
        "in its slices sr, sz, s; W3s{layer} are W3s0 and the matrices of W3sN, biases have an axis of 1 more. Read in "
        "source, not run"
    ),
    reset=("after",),
    batch_first=False,
    many_layers=True,
)
CONVENTIONS = (GRU,)


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is the first of the set, or an archive with it."""
    is_first = head.startswith(b"\x93NUMPY") and path.name.endswith(f"{_FIRST}.npy")
    return is_first or f"{_FIRST}.npy" in member_names(path, head)


def read(path: Path, settings: Settings) -> Bundle:
    """Read the one layer or stack of a set."""
    tensors = _tensors(path)
    batch_first = settings.flag("batch_first", _NAME)
    unsaid = Assumption("batch_first", "false", "Arraymancer's GRU takes [T, N, .]")
    try:
        arrays = _by_layer(tensors)
        sizes = GRU.sizes({**arrays, _RECURRENT: arrays[_RECURRENT][:1], **{key: arrays[key][:1] for key in _BIASES}})
        spec = RNNSpec(
            cell="gru",
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            num_layers=len(arrays[_RECURRENT]),
            bias="double",
            reset="after",
            direction="forward",
        )
        origin = Origin(
            framework=GRU.framework,
            convention=GRU.name,
            name=_NAME,
            batch_first=batch_first,
            padding=GRU.padding,
            evidence=("the tensors have the names and shapes of Arraymancer's gru_forward",),
            assumptions=() if batch_first is not None else (unsaid,),
        )
        return Bundle({_NAME: RNNWeights(spec, GRU.read(arrays, spec), origin)}, format="arraymancer", path=path)
    except (LayoutError, SpecError) as error:
        raise FormatError(f"{path}: {error}") from error


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write the one layer or stack of a bundle as an archive of the tensors."""
    if len(bundle.layers) > 1:
        reason = f"a set of tensors is one layer or stack; choose one of {', '.join(map(repr, bundle.layers))}"
        raise Incompatible("Arraymancer's files cannot hold these", [reason])
    ((name, weights),) = bundle.layers.items()
    plan = rewrite.plan(weights, CONVENTIONS)
    ready = plan.apply(weights)
    tensors = _together(GRU.write(ready.arrays, ready.spec), plan.spec.num_layers)
    write_members(path, {f"{key}.npy": npy_bytes(array) for key, array in tensors.items()})
    order = weights.origin.order(options.batch_first)
    settings = {} if order is None else {"batch_first": str(order).lower()}
    line = "gru_inference(input, W3s0, W3sN, U3s, bW3s, bU3s, output, hidden)"
    return Written((WrittenLayer(name, _NAME, plan, line, settings),), not_converted=tuple(bundle.tensors))


FORMATS = (
    Format(
        name="arraymancer",
        framework="arraymancer",
        suffixes=(".arraymancer.npz",),
        reads="a GRU's W3s0.npy with the other tensors beside it, or an archive of them",
        writes="an archive of the tensors: unpacked, .npy files for read_npy",
        sniff=sniff,
        read=read,
        write=write,
    ),
)


def _tensors(path: Path) -> dict[str, Array]:
    """Name -> tensor of a set; W3sN is missing where there is one layer."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"PK"
    if zipped:
        members = read_members(path)
        contents = {name: members[f"{name}.npy"] for name in _ALL if f"{name}.npy" in members}
    else:
        prefix = path.name.removesuffix(f"{_FIRST}.npy")
        places = {name: path.with_name(f"{prefix}{name}.npy") for name in _ALL}
        contents = {name: place.read_bytes() for name, place in places.items() if place.is_file()}
    if missing := [name for name in (_FIRST, _RECURRENT, *_BIASES) if name not in contents]:
        raise FormatError(f"{path}: {', '.join(f'{name}.npy' for name in missing)} missing beside it")
    tensors = {name: read_npy(content, f"{path}: {name}.npy") for name, content in contents.items()}
    if odd := [f"{name} is {array.dtype}" for name, array in tensors.items() if array.dtype.name not in _FLOATS]:
        raise FormatError(f"{path}: {', '.join(odd)}; {' and '.join(_FLOATS)} are read")
    return {name: array.astype(array.dtype.newbyteorder("=")) for name, array in tensors.items()}


def _by_layer(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The row's arrays: each layer's input matrix by itself, biases without the axis of 1."""
    upper = tensors.get(_UPPER, np.empty((0, 0, 0)))
    if upper.ndim != 3:
        raise LayoutError(f"{_UPPER} is {list(upper.shape)} and should be [L-1, 3H, H]")
    arrays = {_FIRST: tensors[_FIRST], **{f"W3s{1 + index}": matrix for index, matrix in enumerate(upper)}}
    layers = 1 + len(upper)
    for name in (_RECURRENT, *_BIASES):
        shape, is_bias = tensors[name].shape, name in _BIASES
        if len(shape) != 3 or shape[0] != layers or (is_bias and shape[1] != 1):
            wanted = f"[{layers}, {'1, 3H' if is_bias else '3H, H'}]"
            raise LayoutError(f"{name} is {list(shape)} and should be {wanted}")
    return {**arrays, _RECURRENT: tensors[_RECURRENT], **{name: tensors[name][:, 0] for name in _BIASES}}


def _together(arrays: Mapping[str, Array], layers: int) -> dict[str, Array]:
    """The inverse of `_by_layer`."""
    upper = {_UPPER: np.stack([arrays[f"W3s{layer}"] for layer in range(1, layers)])} if layers > 1 else {}
    biases = {name: arrays[name][:, None] for name in _BIASES}
    return {_FIRST: arrays[_FIRST], **upper, _RECURRENT: arrays[_RECURRENT], **biases}
