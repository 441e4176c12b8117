"""A model as a chain of layers: `Sequential`. Knows no losses and no data."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import ArgumentError
from rnnbridge.layers import Gradients, Layer
from rnnbridge.layers.gradients import ALL, read_want
from rnnbridge.layers.parameters import InPlace
from rnnbridge.training.module import Forward, Module, check_tape
from rnnbridge.training.modules import LastStep

Array = NDArray[Any]


class Sequential(Module):
    """Layers that feed each other, with the calls that each of them has.

        model = Sequential(Embedding(97, 32), rb.LSTM(32, 64, batch_first=True), Linear(64, 97))
        y, state = model(tokens)  # tokens [N, T] -> y [N, T, 97]

    Args:
        layers: of rb.LSTM, rb.GRU, rb.RNN and rb.layer (batch_first), Embedding, Linear, LastStep, another Sequential,
            or a `Module` of your own.

    `LastStep()` on two directions, or on a reverse one, warns: that has seen one step there.

    The weights are the layers' own arrays under "0.weight", "1.weight_ih_l0" ...; those of a layer that is frozen
    (`model.layers[0].freeze()`) have no gradients. The state is one entry for each layer, None where it has none.

    Raises:
        ArgumentError: something that is no layer, one that is there twice, a recurrent one that takes [T, N, .], or
            `LastStep(bidirectional=True)` on a layer that gives no two directions side by side.
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if not layers:
            raise ArgumentError("Sequential() takes one or more layers")
        for layer in layers:
            _check_layer(layer)
        self.layers = layers
        for below, above in pairwise(_leaves(self)):
            _check_last_step(below, above)
        if any(np.shares_memory(one, other) for one, other in combinations(self.weights.values(), 2)):
            raise ArgumentError("a layer is there twice, or two share weights: each has gradients of its own here")
        self.keeps_time = all(getattr(layer, "keeps_time", True) for layer in layers)

    @property
    def weights(self) -> InPlace:
        """Name -> array, writable in place unless its layer is frozen."""
        return InPlace({f"{k}.{name}": a for k, layer in enumerate(self.layers) for name, a in layer.weights.items()})

    def freeze(self) -> None:
        """Freeze every layer."""
        for layer in self.layers:
            layer.freeze()

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Forward:
        """Run every layer on what the one before gave; the state and the tape have an entry for each."""
        if state is not None and not (isinstance(state, tuple) and len(state) == len(self.layers)):
            raise ArgumentError(f"state is {len(self.layers)} entries, one for each layer, as the model gave it")
        states, tapes = [], []
        for k, (layer, initial) in enumerate(zip(self.layers, state or (None,) * len(self.layers), strict=True)):
            if isinstance(layer, Layer):
                _check_time(k, layer, x)
                _check_order(k, layer, x, lengths)
            x, final, tape = layer.forward(x, initial, lengths, training=training)
            states.append(final)
            tapes.append(tape)
        return x, tuple(states), tuple(tapes) if training else None

    def backward(self, tape: Any, dy: Array, dstate: Any = None, *, want: Collection[str] = ALL) -> Gradients:
        """Gradients from the last layer down to the first. Frozen weights have none."""
        check_tape("Sequential.backward", tape)
        want_x, want_state, names = read_want(want, self.weights)
        asked = [_asked(layer, k, names, want_state, want_x and k == 0) for k, layer in enumerate(self.layers)]
        lowest = next((k for k, wanted in enumerate(asked) if wanted), len(self.layers))
        weights: dict[str, Array] = {}
        states = [None] * len(self.layers)
        for k in reversed(range(lowest, len(self.layers))):
            grads = self.layers[k].backward(tape[k], dy, dstate and dstate[k], want=asked[k] + ["x"] * (k > lowest))
            dy, states[k] = grads.x, grads.state
            weights |= {f"{k}.{name}": gradient for name, gradient in grads.weights.items()}
        in_order = {name: weights[name] for name in self.weights if name in weights}
        return Gradients(dy if want_x else None, tuple(states) if want_state else None, in_order)

    def __getitem__(self, k: int) -> Any:
        """The layer at place k."""
        return self.layers[k]

    def __len__(self) -> int:
        return len(self.layers)

    def __repr__(self) -> str:
        lines = "".join(f"\n  {k}: {layer!r}" for k, layer in enumerate(self.layers))
        return f"<Sequential, {sum(array.size for array in self.weights.values())} weights{lines}>"


def recurrent_layers(model: Sequential, prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """The layers that run on the engine, each with its place, e.g. "1" or "0.2"."""
    for k, layer in enumerate(model.layers):
        if isinstance(layer, Sequential):
            yield from recurrent_layers(layer, f"{prefix}{k}.")
        elif isinstance(layer, Layer):
            yield f"{prefix}{k}", layer


def trainable(model: Any) -> dict[str, Array]:
    """The weights that are not frozen."""
    return {name: array for name, array in model.weights.items() if array.flags.writeable}


def _asked(layer: Any, k: int, names: list[str], state: bool, x: bool) -> list[str]:
    """What is wanted of the layer at place k for its own sake; the layers below it may need "x" too."""
    return [name for name in trainable(layer) if f"{k}.{name}" in names] + ["state"] * state + ["x"] * x


def _leaves(model: Sequential) -> Iterator[Any]:
    for layer in model.layers:
        yield from _leaves(layer) if isinstance(layer, Sequential) else (layer,)


def _check_last_step(below: Any, above: Any) -> None:
    """Where the last step of each direction lies."""
    if not (isinstance(above, LastStep) and isinstance(below, Layer)):
        return
    directions, beside = below.spec.num_directions, below.spec.merge in ("concat", "none")
    if above.bidirectional and not (directions == 2 and beside):
        raise ArgumentError(f"{above!r} takes two directions side by side, which {below!r} does not give: LastStep()")
    if below.spec.direction == "reverse" and below.spec.output_order == "input":
        warnings.warn(
            f"{above!r} on {below!r}: it runs from the last step to the first, and has seen one step at the last; its "
            "answer is its final state",
            stacklevel=3,
        )
    if directions == 2 and not above.bidirectional:
        warnings.warn(
            f"{above!r} on {below!r}: the second direction ends at the first step, and has seen one step at the last; "
            "LastStep(bidirectional=True) takes each at its end",
            stacklevel=3,
        )


def _check_time(k: int, layer: Layer, x: Any) -> None:
    """A layer by itself takes [T, I] too, and would run through the batch as if it were time."""
    if getattr(x, "ndim", None) == 2:
        raise ArgumentError(
            f"layer {k}, {layer!r}, was given {list(x.shape)}; it takes [N, T, {layer.spec.input_size}] here"
        )


def _check_order(k: int, layer: Layer, x: Any, lengths: Any) -> None:
    """Whatever comes after a layer takes the valid steps to be the first ones; flipped, they are the last."""
    if layer.spec.output_order != "processing" or lengths is None or getattr(x, "ndim", None) != 3:
        return
    if np.any(np.asarray(lengths) != x.shape[1]):
        raise ArgumentError(
            f"layer {k}, {layer!r}, gives its steps in the order it went through them (go_backwards), those of shorter "
            "sequences at the end, where nothing above looks for them: give it sequences of one length, without lengths"
        )


def _check_layer(layer: Any) -> None:
    if not isinstance(layer, Module | Layer):
        raise ArgumentError(
            f"a {type(layer).__name__} is no layer; layers are rb.LSTM, rb.GRU, rb.RNN, rb.layer(weights), and the "
            "Modules of rnnbridge.training"
        )
    if isinstance(layer, Layer) and not layer.batch_first:
        raise ArgumentError(f"{layer!r}: a model's sequences are [N, T, .]; give the layer batch_first=True")
