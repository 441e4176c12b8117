"""Problems of training: what goes into a layer and its backward, what the oracle says, and how far it may be off."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rnnbridge as rb
from rnnbridge.layers import Gradients, Layer, Tape
from rnnbridge.layers.gradients import ALL, read_want
from rnnbridge.proof.tolerance import for_dtype, is_sharp, tolerance_between
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights
from tests import oracle_backward, philox
from tests.samples import weights_of

SEED = 2**40 + 77
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A layer, its input and the gradients of its outputs.

    `lengths` is "none", "mixed", "zeros" or "all zero", or one length per sequence.
    `left_out` are gradients of outputs that are not given, `want` is as `Layer.backward` takes it.
    """

    spec: RNNSpec
    T: int
    N: int
    dtype: str = "float32"
    lengths: str | tuple[int, ...] = "none"
    dropout: float = 0.0
    recompute: bool = False
    threads: int | None = None
    left_out: tuple[str, ...] = ()
    want: tuple[str, ...] = ALL
    accumulate: bool = False
    given: Arrays = field(init=False, repr=False, compare=False)
    weights: RNNWeights = field(init=False, repr=False, compare=False)

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
        if not isinstance(self.lengths, str):
            return np.array(self.lengths, np.int64)
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
        one, other = (None if name in self.left_out else self.given.get(name) for name in (h, c))
        return (one, other) if self.spec.has_cell_state else one

    def dy(self) -> Any:
        if "dy" in self.left_out:
            return None
        H = self.spec.hidden_size
        dy = self.given["dy"]
        return (dy[..., :H], dy[..., H:]) if self.spec.merge == "none" else dy

    def forward(self, net: Layer, **changes: Any) -> tuple[Any, Any, Tape]:
        options = {"lengths": self.steps(), "recompute": self.recompute, "threads": self.threads, **changes}
        return net.forward(self.given["x"], self.pair("h0", "c0"), training=True, **options)

    def backward(self, net: Layer, tape: Tape, **changes: Any) -> Gradients:
        return net.backward(tape, self.dy(), self.pair("dhn", "dcn"), **{"threads": self.threads, **changes})

    def results(self) -> Arrays:
        """Outputs and gradients by name; twice the gradients, where they are added to what the first run wrote."""
        net = self.layer()
        y, state, tape = self.forward(net)
        grads = self.backward(net, tape, want=self.want)
        if self.accumulate:
            grads = self.backward(net, tape, want=self.want, into=copy.deepcopy(grads), accumulate=True)
        return {**outputs_by_name(y, state), **by_name(grads)}

    def wanted(self, exact: Arrays) -> Arrays:
        """What `results` has to be, of everything that the oracle gives."""
        want_x, want_state, names = read_want(self.want, self.spec.weight_shapes())
        names += ["x"] * want_x + ["h0", "c0"] * want_state
        gradients = {name: exact[name] * (1 + self.accumulate) for name in names if name in exact}
        return {name: exact[name] for name in oracle_backward.OUTPUTS if name in exact} | gradients

    def exact(self, dtype: Any = np.float64) -> Arrays:
        """The oracle's gradients by name, all of them."""
        return {n: one for n, one in self.exact_results(dtype).items() if n not in oracle_backward.OUTPUTS}

    def exact_results(self, dtype: Any = np.float64) -> Arrays:
        """The oracle's outputs and gradients by name."""
        given = {name: array for name, array in self.given.items() if name not in ("x", *self.left_out)}
        masks, arrays = self.masks(), self.weights.arrays
        return oracle_backward.results(
            self.spec, arrays, self.given["x"], lengths=self.steps(), masks=masks, dtype=dtype, **given
        )


def parts(state: Any) -> tuple[np.ndarray, ...]:
    return state if isinstance(state, tuple) else (state,)


def by_name(grads: Gradients) -> Arrays:
    """The oracle's names; what was not asked for is not there."""
    arrays = {"x": grads.x, **dict(zip(("h0", "c0"), parts(grads.state), strict=False)), **grads.weights}
    return {name: array for name, array in arrays.items() if array is not None}


def outputs_by_name(y: Any, state: Any) -> Arrays:
    return {"y": np.concatenate(parts(y), axis=-1), **dict(zip("hc", parts(state), strict=False))}


def differences(got: Arrays, exact: Arrays, rough: Arrays, dtype: str) -> dict[str, float]:
    """Of each array that is off by more than a correct run in this dtype may be: its worst element, where that is,
    and how many times the tolerance it is off."""
    assert got.keys() == exact.keys()
    found = {}
    for name, truth in exact.items():
        assert got[name].shape == truth.shape
        assert got[name].dtype == dtype
        float32 = tolerance_between(truth, rough[name])
        assert is_sharp(float32, truth), f"a tolerance of {float32} for {name} says nothing"
        allowed = for_dtype(float32, dtype)
        error = np.nan_to_num(np.abs(got[name].astype(np.float64) - truth), nan=np.inf)
        if truth.size and error.max() > allowed:
            at = np.unravel_index(np.argmax(error), error.shape)
            text = f"{name}{list(map(int, at))} is {got[name][at]}, exact {truth[at]}, allowed {allowed:.3g}"
            found[text] = float(error[at] / allowed) if allowed else np.inf
    return found


def can_judge(exact: Arrays, rough: Arrays) -> bool:
    """Whether the tolerances are small against what they are for."""
    return all(is_sharp(tolerance_between(truth, rough[name]), truth) for name, truth in exact.items())


def report(found: dict[str, float]) -> str:
    """The worst first."""
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return "; ".join(f"{text}: {excess:.3g} times too far" for text, excess in ordered[:9])


def judge(got: Arrays, exact: Arrays, rough: Arrays, dtype: str) -> None:
    """Every array is within what a correct run in this dtype may be off; else the worst elements and where they are."""
    found = differences(got, exact, rough, dtype)
    assert not found, report(found)


def same_bits(one: Arrays, other: Arrays) -> bool:
    assert one.keys() == other.keys()
    return all(one[name].tobytes() == other[name].tobytes() for name in one)
