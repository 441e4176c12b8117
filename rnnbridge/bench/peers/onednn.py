"""oneDNN's primitives, through the small library that `make bench` builds from benchmarks/onednn_peer.cpp."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import rewrite
from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem
from rnnbridge.convention import Convention
from rnnbridge.errors import Incompatible, NativeError
from rnnbridge.slot import Slot
from rnnbridge.spec import Direction, RNNSpec
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
_MATRICES = (Slot("layer", "weight_ih", "l d i g o"), Slot("iter", "weight_hh", "l d i g o"))
_BOTH: tuple[Direction, ...] = ("forward", "bidirectional")
_SOURCE = "oneDNN 3.2, doc/primitives/rnn.md: ldigo, ldgo; gates of each cell under its heading"


def _row(primitive: str, gates: str, letters: dict[str, str], **more: Any) -> Convention:
    slots = more.pop("slots", (*_MATRICES, Slot("bias", "bias_ih", "l d g o")))
    return Convention(
        name=f"onednn.{primitive}",
        gates=gates,
        letters=letters,
        slots=slots,
        source=_SOURCE,
        directions=_BOTH,
        many_layers=True,
        **more,
    )


# By the case's cell, in the order of the library's enumeration. An LBR-GRU's bias ends in
# a fourth row, b_hn: of `inside` the last.
_ROWS = {
    "rnn": _row("vanilla_rnn", "n", {}, cell="rnn", activations=(("tanh",),)),
    "lstm": _row("lstm", "ifco", {"c": "g"}, cell="lstm", state_order="h c"),
    "gru-before": _row("gru", "uro", {"u": "z", "o": "n"}, cell="gru", reset=("before",)),
    "gru": _row(
        "lbr_gru",
        "uro",
        {"u": "z", "o": "n"},
        cell="gru",
        reset=("after",),
        slots=(*_MATRICES, Slot("bias", "bias_ih", "l d g o"), Slot("inside", "bias_hh", "l d g o")),
    ),
}


class _Sizes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in "cell mode layers directions T N I H".split())


class _Arrays(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in "x y h c layer iter bias dx dy dlayer diter dbias".split())


def prepare(problem: Problem) -> Prepared:
    """One primitive for the whole stack, and one for its backward."""
    case = problem.case
    refused = ["float32 is measured only"] * (case.dtype != "float32")
    refused += ["it takes sequences of one length only"] * (problem.lengths is not None)
    wide = case.layers > 1 and (case.I != case.H or case.bidirectional)
    refused += ["one primitive of several layers needs I = H and one direction"] * wide
    if refused:
        raise Incompatible("oneDNN", refused)
    run = _Run(problem)
    return Prepared(run.call, run.outputs, f"oneDNN {run.version}, {case.threads} threads")


class _Run:
    def __init__(self, problem: Problem) -> None:
        case, self._row = problem.case, _ROWS[problem.case.cell]
        self._problem = problem
        self._library = _library()
        self.version = self._library.peer_version().decode()
        self._spec, given = self._given(problem)
        self._arrays: dict[str, Array] = {name: np.ascontiguousarray(array) for name, array in given.items()}
        states = (case.spec.num_layers * case.spec.num_directions, case.N, case.H)
        self._arrays |= {"x": problem.x, "y": np.empty_like(problem.dy), "dy": problem.dy}
        self._arrays |= {"h": np.empty(states, np.float32), "c": np.empty(states, np.float32)}
        self._arrays |= {f"d{name}": np.empty_like(self._arrays[name]) for name in ("x", "layer", "iter", "bias")}
        kinds = list(_ROWS).index(case.cell), ("inference", "forward", "training").index(case.mode)
        self._sizes = _Sizes(*kinds, case.layers, case.spec.num_directions, case.T, case.N, case.I, case.H)
        self._pointers = _Arrays(**{name: array.ctypes.data for name, array in self._arrays.items()})
        self._run = ctypes.c_void_p(self._library.peer_prepare(self._sizes, self._pointers))
        if not self._run:
            raise Incompatible("oneDNN", [self._library.peer_failure().decode()])
        weakref.finalize(self, self._library.peer_release, self._run).atexit = False

    def call(self) -> None:
        if self._library.peer_call(self._run):
            raise NativeError(self._library.peer_failure().decode())

    def outputs(self) -> dict[str, Array]:
        kept = ("y", "h", "c") if self._problem.case.cell == "lstm" else ("y", "h")
        found = {name: self._arrays[name] for name in kept}
        if self._problem.case.mode == "training":
            arrays = {name: self._arrays[f"d{name}"] for name in ("layer", "iter", "bias")}
            if self._problem.case.cell == "gru":
                arrays["bias"] = arrays["inside"] = arrays["bias"][:, :, :-1]  # bias_hh is not compared
            read = self._row.read(arrays, self._spec)
            found["dx"] = self._arrays["dx"]
            found |= {f"d{name}": array for name, array in read.items() if not name.startswith("bias_hh")}
        return found

    def _given(self, problem: Problem) -> tuple[RNNSpec, dict[str, Array]]:
        """The weights in oneDNN's layout, and the spec that they are then of."""
        weights = problem.to_weights()
        if problem.case.cell == "gru":
            weights = _only_b_hn_inside(weights)
        plan = rewrite.plan(weights, [self._row])
        ready = plan.apply(weights)
        arrays = self._row.write(ready.arrays, ready.spec)
        if "inside" in arrays:
            arrays["bias"] = np.concatenate([arrays["bias"], arrays.pop("inside")[:, :, -1:]], axis=2)
        return ready.spec, arrays


def _only_b_hn_inside(weights: RNNWeights) -> RNNWeights:
    """The rows of b_hh that act on the same sums as b_ih, added to it: oneDNN has b_hn alone."""
    arrays, outside = dict(weights.arrays), 2 * weights.spec.hidden_size
    for _, _, suffix in weights.spec.positions():
        b_ih, b_hh = arrays[f"bias_ih{suffix}"].copy(), arrays[f"bias_hh{suffix}"].copy()
        b_ih[:outside] += b_hh[:outside]
        b_hh[:outside] = 0
        arrays |= {f"bias_ih{suffix}": b_ih, f"bias_hh{suffix}": b_hh}
    return RNNWeights(weights.spec, arrays)


def _library() -> Any:
    library = ctypes.CDLL(os.environ["RNNBRIDGE_BENCH_ONEDNN"])
    library.peer_prepare.restype = ctypes.c_void_p
    library.peer_prepare.argtypes = (ctypes.POINTER(_Sizes), ctypes.POINTER(_Arrays))
    library.peer_failure.restype = library.peer_version.restype = ctypes.c_char_p
    return library
