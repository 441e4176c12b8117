"""The canonical layer run in plain NumPy: slow, complete, and the judge where nothing compiled is at hand.

It covers every field of a spec, also those that the engine does not run. Knows no framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.activation import Activation
from rnnbridge.errors import ArgumentError
from rnnbridge.gates import split_gates
from rnnbridge.spec import RNNSpec, suffix_of

Array = NDArray[Any]
Function = Callable[[Array], Array]


class Output(NamedTuple):
    """y `[T, N, .]`, zero past a length; final states h `[L*D, N, H or P]` and c `[L*D, N, H]`, None unless an LSTM."""

    y: Array
    h: Array
    c: Array | None


def forward(
    spec: RNNSpec,
    arrays: Mapping[str, Array],
    x: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    lengths: Array | None = None,
    dtype: DTypeLike = np.float64,
) -> Output:
    """Run a layer or stack.

    Args:
        spec, arrays: the layer, as in `RNNWeights`.
        x: [T, N, I]. What lies past a length does not matter.
        h0: [L*D, N, H or P], zeros if None. c0: [L*D, N, H], LSTM only.
        lengths: [N], 0..T in any order; None is T everywhere.
        dtype: what to compute in.

    Raises:
        ArgumentError: shapes that do not fit, a length out of range, T = 0.
    """
    x = np.asarray(x, dtype)
    if x.ndim != 3 or x.shape[0] == 0 or x.shape[2] != spec.input_size:
        raise ArgumentError(f"x is {list(x.shape)}; it is [T, N, {spec.input_size}] with T at least 1")
    steps, batch = x.shape[:2]
    valid = _valid_steps(lengths, steps, batch)
    states = spec.num_layers * spec.num_directions
    h = _initial("h0", h0, (states, batch, spec.state_size), dtype)
    c = _initial("c0", c0, (states, batch, spec.hidden_size), dtype)
    with np.errstate(all="ignore"):
        for layer in range(spec.num_layers):
            outputs = [_one_direction(spec, arrays, layer, d, x, h, c, valid) for d in range(spec.num_directions)]
            x = _merged(spec, outputs) * valid[..., None]
    return Output(x[::-1] if spec.output_order == "processing" else x, h, c if spec.has_cell_state else None)


def activate(activation: Activation) -> Function:
    """An activation as a function of arrays."""
    a, b = activation.alpha or 0.0, activation.beta or 0.0
    functions: dict[str, Function] = {
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "tanh": np.tanh,
        "relu": lambda v: np.maximum(v, 0),
        "linear": lambda v: v,
        "hard_sigmoid": lambda v: np.clip(a * v + b, 0, 1),
        "affine": lambda v: a * v + b,
        "leaky_relu": lambda v: np.where(v < 0, a * v, v),
        "thresholded_relu": lambda v: np.where(v > a, v, 0 * v),
        "scaled_tanh": lambda v: a * np.tanh(b * v),
        "elu": lambda v: np.where(v < 0, a * np.expm1(v), v),
        "selu": lambda v: 1.0507009873554805 * np.where(v < 0, 1.6732632423543772 * np.expm1(v), v),
        "softsign": lambda v: v / (1 + np.abs(v)),
        "softplus": lambda v: np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v))),
        "exponential": np.exp,
        "silu": lambda v: v / (1 + np.exp(-v)),
        "gelu": lambda v: v * (0.5 * (1 + np.vectorize(math.erf, otypes=[v.dtype])(v / math.sqrt(2)))),
    }
    return functions[activation.name]


def _one_direction(
    spec: RNNSpec, arrays: Mapping[str, Array], layer: int, direction: int, x: Array, h: Array, c: Array, valid: Array
) -> Array:
    """Run one direction of one layer; h and c `[L*D, N, .]` are updated in place."""
    row = layer * spec.num_directions + direction
    cell = _Cell(spec, arrays, suffix_of(layer, direction), x.dtype)
    backwards = spec.direction == "reverse" or direction == 1
    y = np.zeros((*x.shape[:2], spec.state_size), x.dtype)
    for t in _times(len(x), backwards):
        new_h, new_c = cell.step(x[t], h[row], c[row])
        here = valid[t][:, None]
        h[row], c[row] = np.where(here, new_h, h[row]), np.where(here, new_c, c[row])
        y[t] = np.where(here, h[row], 0)
    return y


class _Cell:
    """The formulas, a gate at a time."""

    def __init__(self, spec: RNNSpec, arrays: Mapping[str, Array], suffix: str, dtype: DTypeLike) -> None:
        self.spec = spec
        self.functions = [activate(one) for one in spec.activations]

        def gates(name: str) -> dict[str, Array]:
            array = arrays.get(name + suffix)
            return {} if array is None else split_gates(np.asarray(array, dtype), name, spec.cell)

        none = dict.fromkeys(spec.gates, np.zeros(spec.hidden_size, dtype))
        self.w, self.u = gates("weight_ih"), gates("weight_hh")
        self.b, self.b_hh = gates("bias_ih") or none, gates("bias_hh") or none
        self.peephole = gates("peephole") or dict.fromkeys("ifo", np.zeros(spec.hidden_size, dtype))
        self.projection = np.asarray(arrays[f"weight_hr{suffix}"], dtype) if spec.proj_size else None
        self.step = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[spec.cell]

    def _input(self, gate: str, x: Array) -> Array:
        return x @ self.w[gate].T + self.b[gate]

    def _recurrent(self, gate: str, h: Array) -> Array:
        return h @ self.u[gate].T + self.b_hh[gate]

    def _clipped(self, value: Array, bound: float | None) -> Array:
        return value if bound is None else np.clip(value, -bound, bound)

    def _lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f_gates, f_candidate, f_output = self.functions

        def gate(name: str, peeped: Array) -> Array:
            a = self._input(name, x) + self._recurrent(name, h) + self.peephole[name] * peeped
            return f_gates(self._clipped(a, self.spec.clip))

        i = gate("i", c) if self.spec.coupled != "i=1-f" else 1 - gate("f", c)
        f = gate("f", c) if self.spec.coupled != "f=1-i" else 1 - i
        g = f_candidate(self._clipped(self._input("g", x) + self._recurrent("g", h), self.spec.clip))
        c = self._clipped(f * c + i * g, self.spec.cell_clip)
        h = gate("o", c) * f_output(c)
        if self.projection is not None:
            h = self._clipped(h @ self.projection.T, self.spec.proj_clip)
        return h, c

    def _gru(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f_gates, f_candidate = self.functions
        r, z = (f_gates(self._clipped(self._input(k, x) + self._recurrent(k, h), self.spec.clip)) for k in "rz")
        recurrent = r * self._recurrent("n", h) if self.spec.reset == "after" else self._recurrent("n", r * h)
        n = f_candidate(self._clipped(self._input("n", x) + recurrent, self.spec.clip))
        return (1 - z) * n + z * h, c

    def _rnn(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        return self.functions[0](self._clipped(self._input("n", x) + self._recurrent("n", h), self.spec.clip)), c


def _merged(spec: RNNSpec, outputs: list[Array]) -> Array:
    if len(outputs) == 1:
        return outputs[0]
    forward_y, reverse_y = outputs
    merges: dict[str, Callable[[], Array]] = {
        "sum": lambda: forward_y + reverse_y,
        "mul": lambda: forward_y * reverse_y,
        "ave": lambda: (forward_y + reverse_y) / 2,
    }
    return merges[spec.merge]() if spec.merge in merges else np.concatenate(outputs, axis=-1)


def _times(steps: int, backwards: bool) -> Iterator[int]:
    return iter(range(steps - 1, -1, -1) if backwards else range(steps))


def _valid_steps(lengths: Array | None, steps: int, batch: int) -> Array:
    if lengths is None:
        return np.ones((steps, batch), bool)
    lengths = np.asarray(lengths)
    if lengths.shape != (batch,) or ((lengths < 0) | (lengths > steps)).any():
        raise ArgumentError(f"lengths are {lengths.tolist()}; they are {batch} whole numbers from 0 to T = {steps}")
    return np.arange(steps)[:, None] < lengths


def _initial(name: str, given: Array | None, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    if given is None:
        return np.zeros(shape, dtype)
    state = np.array(given, dtype)
    if state.shape != shape:
        raise ArgumentError(f"{name} is {list(state.shape)}; it is {list(shape)}")
    return state
