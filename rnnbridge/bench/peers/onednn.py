"""oneDNN's primitives, through the small library that `make bench` builds from benchmarks/onednn_peer.cpp."""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem, load_arrays, save_arrays
from rnnbridge.bundle import load, save
from rnnbridge.errors import Incompatible, NativeError
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]
# In the order of the library's enumerations.
_CELLS = ("rnn", "lstm", "gru-before", "gru")
_MODES = ("inference", "forward", "training")
# The library's names of the memories, and those that the format "onednn" has for them.
_MEMORIES = {"layer": "weights_layer_ldigo", "iter": "weights_iter_ldigo", "bias": "bias_ldgo"}


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
        case, self._problem, self._library = problem.case, problem, _library()
        self.version = self._library.peer_version().decode()
        directions = case.spec.num_directions
        states = (case.layers * directions, case.N, case.H)
        self._arrays: dict[str, Array] = _memories(problem.to_weights())
        self._arrays |= {"x": problem.x, "y": np.empty_like(problem.dy), "dy": problem.dy}
        self._arrays |= {"h": np.empty(states, np.float32), "c": np.empty(states, np.float32)}
        self._arrays |= {f"d{name}": np.empty_like(self._arrays[name]) for name in ("x", *_MEMORIES)}
        kinds = _CELLS.index(case.cell), _MODES.index(case.mode)
        sizes = _Sizes(*kinds, case.layers, directions, case.T, case.N, case.I, case.H)
        pointers = _Arrays(**{name: array.ctypes.data for name, array in self._arrays.items()})
        self._run = ctypes.c_void_p(self._library.peer_prepare(sizes, pointers))
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
            gradients = _canonical({name: self._arrays[f"d{name}"] for name in _MEMORIES})
            found |= {"dx": self._arrays["dx"], **{f"d{name}": array for name, array in gradients.items()}}
        return found


def _memories(weights: RNNWeights) -> dict[str, Array]:
    """Weights in oneDNN's layouts, all layers in one array."""
    layers = []
    with tempfile.TemporaryDirectory(prefix="rnnbridge-bench-") as folder:
        for number, layer in enumerate(weights.split()):
            path = Path(folder) / f"{number}.onednn.npz"
            save(layer, path)
            layers.append(load_arrays(path))
    return {name: np.concatenate([layer[memory] for layer in layers]) for name, memory in _MEMORIES.items()}


def _canonical(memories: dict[str, Array]) -> dict[str, Array]:
    """Gradients lie as their weights do. Those of the one bias are bias_ih's."""
    with tempfile.TemporaryDirectory(prefix="rnnbridge-bench-") as folder:
        path = Path(folder) / "gradients.onednn.npz"
        save_arrays(path, {memory: memories[name] for name, memory in _MEMORIES.items()})
        (read,) = load(path).layers.values()
    return {name: array for name, array in read.arrays.items() if not name.startswith("bias_hh")}


def _library() -> Any:
    library = ctypes.CDLL(os.environ["RNNBRIDGE_BENCH_ONEDNN"])
    library.peer_prepare.restype = ctypes.c_void_p
    library.peer_prepare.argtypes = (ctypes.POINTER(_Sizes), ctypes.POINTER(_Arrays))
    library.peer_failure.restype = library.peer_version.restype = ctypes.c_char_p
    return library
