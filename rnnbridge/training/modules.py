"""The layers that a model needs around its recurrent ones: `Embedding` below, `Linear` and `LastStep` above."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError
from rnnbridge.layers import Gradients
from rnnbridge.layers.arguments import read_lengths
from rnnbridge.layers.gradients import ALL, read_want
from rnnbridge.layers.padding import valid_steps
from rnnbridge.training.arguments import said
from rnnbridge.training.module import Forward, Module, check_tape, float_rows
from rnnbridge.weights import float_dtype

Array = NDArray[Any]


class Embedding(Module):
    """A row of features for each token: whole numbers [N, T] -> [N, T, size]. Tokens past a length are not read.

    Args:
        count: how many tokens there are; they are 0 to count - 1.
        size: features of each.
        seed: of the weights, N(0, 1) as in PyTorch; None draws others each time.
        dtype: "float32" or "float64".

    Its one array is `weight` [count, size].
    """

    def __init__(self, count: int, size: int, *, seed: int | None = None, dtype: DTypeLike = "float32") -> None:
        shape = (whole("count", count, least=1), whole("size", size, least=1))
        super().__init__(weight=_generator(seed).standard_normal(shape).astype(float_dtype(dtype)))

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Forward:
        """[N, T] -> [N, T, size]. Raises ArgumentError for what is no token."""
        weight = self._arrays["weight"]
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu" or x.ndim != 2:
            raise ArgumentError(f"Embedding was given {said(x)}; it takes whole numbers [N, T]")
        valid = valid_of(lengths, *x.shape)
        tokens = np.where(valid, x, 0)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < len(weight):
            raise ArgumentError(f"tokens go from {tokens.min()} to {tokens.max()}; they are 0 to {len(weight) - 1}")
        y = weight[tokens]
        y[~valid] = 0
        return y, None, (tokens, valid) if training else None

    def backward(self, tape: Any, dy: Array, dstate: Any = None, *, want: Collection[str] = ALL) -> Gradients:
        """The sum of dy over each token's places. There is no gradient of x."""
        check_tape("Embedding.backward", tape)
        tokens, valid = tape
        weight = self._arrays["weight"]
        rows = float_rows("Embedding.backward", dy, weight.shape[1], weight.dtype)[valid.ravel()]
        names = read_want(want, self._arrays)[2]
        return Gradients(weights={name: _summed_by(tokens[valid], rows, len(weight)) for name in names})

    def __repr__(self) -> str:
        count, size = self._arrays["weight"].shape
        return f"<Embedding {count} tokens -> {size}, {self._arrays['weight'].dtype}>"


class Linear(Module):
    """y = x W' + b at every step: [N, T, inputs] -> [N, T, outputs], or [N, inputs] -> [N, outputs].

    Args:
        inputs, outputs: sizes.
        bias: whether there is b.
        seed: of the weights, U(-1/sqrt(inputs), 1/sqrt(inputs)) as in PyTorch; None draws others each time.
        dtype: "float32" or "float64".

    Its arrays are `weight` [outputs, inputs] and `bias` [outputs]. What x holds past a length is computed with, and
    should be finite; after a recurrent layer it is zero.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        seed: int | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        shape = (whole("outputs", outputs, least=1), whole("inputs", inputs, least=1))
        kind, generator, bound = float_dtype(dtype), _generator(seed), 1 / math.sqrt(inputs)
        arrays = {"weight": generator.uniform(-bound, bound, shape)}
        if bias:
            arrays["bias"] = generator.uniform(-bound, bound, shape[0])
        super().__init__(**{name: array.astype(kind) for name, array in arrays.items()})

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Forward:
        """[N, ..., inputs] -> [N, ..., outputs]."""
        weight = self._arrays["weight"]
        rows = float_rows("Linear", x, weight.shape[1], weight.dtype)
        y = rows @ weight.T
        if "bias" in self._arrays:
            y += self._arrays["bias"]
        return y.reshape(*x.shape[:-1], len(weight)), None, rows if training else None

    def backward(self, tape: Any, dy: Array, dstate: Any = None, *, want: Collection[str] = ALL) -> Gradients:
        """Gradients of x and of the weights."""
        check_tape("Linear.backward", tape)
        weight = self._arrays["weight"]
        rows = float_rows("Linear.backward", dy, len(weight), weight.dtype)
        want_x, _, names = read_want(want, self._arrays)
        made = {"weight": lambda: rows.T @ tape, "bias": lambda: rows.sum(axis=0)}
        dx = (rows @ weight).reshape(*dy.shape[:-1], weight.shape[1]) if want_x else None
        return Gradients(x=dx, weights={name: made[name]() for name in names})

    def __repr__(self) -> str:
        outputs, inputs = self._arrays["weight"].shape
        return f"<Linear {inputs} -> {outputs}, {self._arrays['weight'].dtype}>"


class LastStep(Module):
    """What a recurrent layer gave last: [N, T, F] -> [N, F], zeros for an empty sequence. For one answer a sequence.

    Args:
        bidirectional: x holds two directions side by side. The second one ends at the first step, so its half is
            taken there.
    """

    keeps_time = False

    def __init__(self, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.bidirectional = bidirectional

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Forward:
        """[N, T, F] -> [N, F]."""
        if not isinstance(x, np.ndarray) or x.ndim != 3 or (self.bidirectional and x.shape[-1] % 2):
            raise ArgumentError(f"LastStep was given {said(x)}; it takes [N, T, F]" + ", F even" * self.bidirectional)
        lengths = valid_of(lengths, *x.shape[:2]).sum(axis=1)
        y = np.zeros((len(x), x.shape[-1]), x.dtype)
        for rows, steps, features in self._places(lengths, x.shape[-1]):
            y[rows, features] = x[rows, steps, features]
        return y, None, (x.shape, lengths) if training else None

    def backward(self, tape: Any, dy: Array, dstate: Any = None, *, want: Collection[str] = ALL) -> Gradients:
        """dy at the steps that were taken, zeros elsewhere."""
        check_tape("LastStep.backward", tape)
        if not read_want(want, ())[0]:
            return Gradients()
        shape, lengths = tape
        dx = np.zeros(shape, dy.dtype)
        for rows, steps, features in self._places(lengths, shape[-1]):
            dx[rows, steps, features] = dy[rows, features]
        return Gradients(x=dx)

    def _places(self, lengths: Array, F: int) -> list[tuple[Array, Any, slice]]:
        """Which sequences, at which step of each, which features."""
        rows = np.flatnonzero(lengths)
        last = lengths[rows] - 1
        if not self.bidirectional:
            return [(rows, last, slice(F))]
        return [(rows, last, slice(F // 2)), (rows, np.zeros_like(last), slice(F // 2, F))]

    def __repr__(self) -> str:
        return "<LastStep of two directions>" if self.bidirectional else "<LastStep>"


def valid_of(lengths: Any, N: int, T: int) -> Array:
    """The mask [N, T] that lengths stand for.

    Raises:
        ArgumentError: not N whole numbers of 0 to T.
    """
    read = read_lengths(lengths, N)
    if read is None:
        return np.ones((N, T), np.bool_)
    if read.size and not 0 <= read.min() <= read.max() <= T:
        raise ArgumentError(f"lengths go from {read.min()} to {read.max()}; they are 0 to T = {T}")
    return valid_steps(read, T).T


def _generator(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(None if seed is None else whole("seed", seed, least=0, most=2**64 - 1))


def _summed_by(tokens: Array, rows: Array, count: int) -> Array:
    """[count, size]: the sum of each token's rows, in their order."""
    sums = np.zeros((count, rows.shape[1]), rows.dtype)
    order = np.argsort(tokens, kind="stable")
    found, starts = np.unique(tokens[order], return_index=True)
    if found.size:
        sums[found] = np.add.reduceat(rows[order], starts, axis=0)
    return sums
