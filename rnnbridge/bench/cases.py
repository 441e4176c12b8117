"""What is measured: the shape, cell, mode and threads of one case, its arithmetic, and the grids of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rnnbridge.spec import RNNSpec
from rnnbridge.weights import float_dtype

CellName = Literal["lstm", "gru", "gru-before", "rnn"]
Mode = Literal["inference", "forward", "training"]
Spread = Literal["full", "uniform", "heavy"]
CELLS: tuple[str, ...] = get_args(CellName)
MODES: tuple[str, ...] = get_args(Mode)
SPREADS: tuple[str, ...] = get_args(Spread)


@dataclass(frozen=True)
class Case:
    """One thing to be measured.

    Args:
        cell: "gru" is reset-after, "gru-before" reset-before; "rnn" has tanh.
        T, N, I, H: time steps, batch, input size, hidden size.
        layers: L.
        bidirectional: D = 2.
        lengths: "full" is T for every sequence; "uniform" between T/8 and T; "heavy" mostly short, a few of T.
        dtype: "float32" or "float64".
        mode: "inference"; "forward" of training, whatever backward needs kept; "training", forward and backward.
        threads: that everyone may use.
    """

    cell: CellName
    T: int
    N: int
    I: int
    H: int
    layers: int = 1
    bidirectional: bool = False
    lengths: Spread = "full"
    dtype: Literal["float32", "float64"] = "float32"
    mode: Mode = "inference"
    threads: int = 1

    @property
    def spec(self) -> RNNSpec:
        """The layer, with two biases, as PyTorch has it."""
        kinds: dict[str, Any] = {
            "lstm": {"cell": "lstm"},
            "gru": {"cell": "gru", "reset": "after"},
            "gru-before": {"cell": "gru", "reset": "before"},
            "rnn": {"cell": "rnn", "activations": ("tanh",)},
        }
        return RNNSpec(
            **kinds[self.cell],
            input_size=self.I,
            hidden_size=self.H,
            num_layers=self.layers,
            direction="bidirectional" if self.bidirectional else "forward",
            bias="double",
        )

    @property
    def shape(self) -> str:
        """T,N,I,H and what is not as usual."""
        extras = (
            f" L{self.layers}" * (self.layers > 1),
            " bi" * self.bidirectional,
            f" {self.lengths}" * (self.lengths != "full"),
            f" {self.dtype}" * (self.dtype != "float32"),
        )
        return f"{self.T},{self.N},{self.I},{self.H}" + "".join(extras)

    def steps(self) -> NDArray[np.int64] | None:
        """Lengths [N], the same in every process; None where all are T."""
        if self.lengths == "full":
            return None
        numbers = np.random.default_rng(self.N)
        if self.lengths == "uniform":
            drawn = numbers.integers(max(self.T // 8, 1), self.T, self.N, endpoint=True)
        else:
            drawn = np.ceil(numbers.lognormal(np.log(self.T / 8), 1.0, self.N)).astype(np.int64)
        drawn[0] = self.T
        return np.clip(drawn, 1, self.T).astype(np.int64)

    def operations(self) -> int:
        """Multiplications and additions of the matrix products: the gates' of every valid step, and in training twice
        as many for the gradients of inputs and states and of weights. Elementwise work is not counted."""
        lengths, spec = self.steps(), self.spec
        rows = self.T * self.N if lengths is None else int(lengths.sum())
        gates = len(spec.gates) * self.H
        forward = sum(
            2 * gates * (spec.layer_input_size(layer) + self.H) * rows * spec.num_directions
            for layer in range(self.layers)
        )
        return forward * (3 if self.mode == "training" else 1)


def check(case: Case) -> list[str]:
    """What is wrong with a case that a user asked for."""
    sizes = {"T": case.T, "N": case.N, "I": case.I, "H": case.H, "layers": case.layers, "threads": case.threads}
    words = {"cell": (case.cell, CELLS), "mode": (case.mode, MODES), "lengths": (case.lengths, SPREADS)}
    found = [f"{name} is {size}; it is at least 1" for name, size in sizes.items() if size < 1]
    found += [
        f"{name} is {word!r}; it is {', '.join(all_)}" for name, (word, all_) in words.items() if word not in all_
    ]
    float_dtype(case.dtype)
    return found


PLAIN = (
    (128, 1, 64, 64),
    (128, 1, 256, 256),
    (32, 1, 1024, 1024),
    (128, 32, 64, 64),
    (128, 32, 128, 128),
    (64, 64, 256, 256),
    (32, 64, 512, 512),
    (16, 128, 1024, 1024),
    (64, 20, 250, 200),
    (1024, 16, 128, 128),
)


def grid() -> Iterator[Case]:
    """The full run, shape by shape."""
    for base in _shapes():
        for cell in ("lstm", "gru", "gru-before"):
            for mode in get_args(Mode):
                for threads in (1, 2):
                    yield replace(base, cell=cell, mode=mode, threads=threads)


def short_grid() -> Iterator[Case]:
    """A run of about a minute: each kind of shape once, on one thread."""
    for base in (Case("lstm", 128, 1, 64, 64), Case("gru", 64, 20, 250, 200)):
        yield base
        yield replace(base, mode="training")
    yield Case("lstm", 128, 32, 128, 128, lengths="uniform")


def _shapes() -> Iterator[Case]:
    for T, N, I, H in PLAIN:
        yield Case("lstm", T, N, I, H)
    for layers in (2, 4):
        yield Case("lstm", 64, 32, 256, 256, layers=layers)
    yield Case("lstm", 128, 32, 128, 128, bidirectional=True)
    yield Case("lstm", 128, 1, 256, 256, bidirectional=True)
    for lengths in ("uniform", "heavy"):
        yield Case("lstm", 128, 32, 128, 128, lengths=lengths)
    for T, N, I, H in ((128, 1, 256, 256), (128, 32, 128, 128), (64, 64, 256, 256)):
        yield Case("lstm", T, N, I, H, dtype="float64")
