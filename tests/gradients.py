"""Problems of training: what goes into a layer and its backward, what the oracle says, and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.layers import Gradients, Layer, Tape
from rnnbridge.proof.tolerance import for_dtype, is_sharp, tolerance_between
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights
from tests import oracle, oracle_backward, philox
from tests.samples import weights_of

SEED = 2**40 + 77
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A layer, its input and the gradients of its outputs. `lengths` is "none", "mixed", "zeros" or "all zero"."""

    spec: RNNSpec
    T: int
    N: int
    dtype: str = "float32"
    lengths: str = "none"
    dropout: float = 0.0
    recompute: bool = False
    threads: int | None = None
    given: Arrays = field(init=False, repr=False)
    weights: RNNWeights = field(init=False, repr=False)

    def __post_init__(self) -> None:
        spec, rng = self.spec, np.random.default_rng([self.T, self.N, self.spec.hidden_size])
        scale = 1 / np.sqrt(spec.hidden_size)  # so that the recurrence neither dies nor explodes
        arrays = {name: array * scale for name, array in weights_of(spec, dtype=self.dtype).arrays.items()}
        states = (spec.num_layers * spec.num_directions, self.N, spec.hidden_size)
        y = (self.T, self.N, spec.output_size)
        shapes = {"x": (self.T, self.N, spec.input_size), "h0": states, "c0": states}
        shapes |= {"dy": y, "dhn": states, "dcn": states}
        given = {name: rng.standard_normal(shape).astype(self.dtype) for name, shape in shapes.items()}
        if not spec.has_cell_state:
            given = {name: array for name, array in given.items() if name not in ("c0", "dcn")}
        object.__setattr__(self, "weights", RNNWeights(spec, {n: a.astype(self.dtype) for n, a in arrays.items()}))
        object.__setattr__(self, "given", given)

    def steps(self) -> np.ndarray | None:
        """Lengths [N], unsorted."""
        rng = np.random.default_rng([self.T, self.N, 5])
        some = rng.integers(1, self.T, self.N, endpoint=True)
        if self.lengths == "zeros":
            some[rng.permutation(self.N)[: max(1, self.N // 3)]] = 0
        return {"none": None, "all zero": 0 * some}.get(self.lengths, some)

    def masks(self) -> list[np.ndarray] | None:
        """The factors that dropout multiplies by, of a layer's first training call."""
        return philox.masks(self.spec, self.T, self.N, self.dropout, SEED) if self.dropout else None

    def layer(self) -> Layer:
        return rb.layer(self.weights, dropout=self.dropout, seed=SEED)

    def pair(self, h: str, c: str) -> Any:
        return (self.given[h], self.given[c]) if c in self.given else self.given[h]

    def dy(self) -> Any:
        H = self.spec.hidden_size
        dy = self.given["dy"]
        return (dy[..., :H], dy[..., H:]) if self.spec.merge == "none" else dy

    def forward(self, net: Layer, **changes: Any) -> tuple[Any, Any, Tape]:
        options = {"lengths": self.steps(), "recompute": self.recompute, "threads": self.threads, **changes}
        return net.forward(self.given["x"], self.pair("h0", "c0"), training=True, **options)

    def backward(self, net: Layer, tape: Tape, **changes: Any) -> Gradients:
        return net.backward(tape, self.dy(), self.pair("dhn", "dcn"), **{"threads": self.threads, **changes})

    def exact(self, dtype: Any = np.float64) -> Arrays:
        """The oracle's gradients by name."""
        given = {name: array for name, array in self.given.items() if name != "x"}
        masks, arrays = self.masks(), self.weights.arrays
        return oracle_backward.gradients(
            self.spec, arrays, self.given["x"], lengths=self.steps(), masks=masks, dtype=dtype, **given
        )

    def exact_outputs(self) -> Arrays:
        arrays, given = self.weights.arrays, self.given
        outputs = oracle.run(
            self.spec, arrays, given["x"], given["h0"], given.get("c0"), self.steps(), masks=self.masks()
        )
        return {name: one for name, one in zip("yhc", outputs, strict=True) if one is not None}


def parts(state: Any) -> tuple[np.ndarray, ...]:
    return state if isinstance(state, tuple) else (state,)


def by_name(grads: Gradients) -> Arrays:
    """The oracle's names."""
    return {"x": grads.x, **dict(zip(("h0", "c0"), parts(grads.state), strict=False)), **grads.weights}


def outputs_by_name(y: Any, state: Any) -> Arrays:
    return {"y": np.concatenate(parts(y), axis=-1), **dict(zip("hc", parts(state), strict=False))}


def judge(got: Arrays, exact: Arrays, rough: Arrays, dtype: str) -> None:
    """Every array is within what a correct run in this dtype may be off; else the worst element and where it is."""
    assert got.keys() == exact.keys()
    wrong = []
    for name, truth in exact.items():
        assert got[name].shape == truth.shape
        assert got[name].dtype == dtype
        float32 = tolerance_between(truth, rough[name])
        assert is_sharp(float32, truth), f"a tolerance of {float32} for {name} says nothing"
        allowed = for_dtype(float32, dtype)
        error = np.abs(got[name].astype(np.float64) - truth)
        if truth.size and not error.max() <= allowed:
            at = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
            wrong.append(f"{name}{list(map(int, at))} is {got[name][at]}, exact {truth[at]}, allowed {allowed:.3g}")
    assert not wrong, "; ".join(wrong)


def same_bits(one: Arrays, other: Arrays) -> bool:
    assert one.keys() == other.keys()
    return all(one[name].tobytes() == other[name].tobytes() for name in one)
