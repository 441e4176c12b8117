"""Making layers: `LSTM`, `GRU`, `RNN` with weights drawn anew, and `layer` from weights that there are."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import DTypeLike

from rnnbridge.errors import ArgumentError
from rnnbridge.layers.initial import drawn
from rnnbridge.layers.layer import Layer
from rnnbridge.spec import Bias, Cell, Reset, RNNSpec
from rnnbridge.weights import RNNWeights


class LSTM(Layer):
    """An LSTM with new weights.

    Args:
        input_size: I.
        hidden_size: H.
        num_layers: L.
        bidirectional: run both directions and concatenate their outputs, forward first.
        bias: "none", "single" or "double" (b_ih and b_hh, as cuDNN and PyTorch have).
        dropout: the part of the features dropped between layers, in training only.
        init: how weights are drawn: "pytorch", U(-1/sqrt(H), 1/sqrt(H)); "keras", Glorot-uniform input and orthogonal
            recurrent weights, zero biases and a forget bias of one; "orthogonal", PyTorch's with each gate's recurrent
            matrix orthogonal.
        seed: of the weights and of dropout, 0 to 2**64 - 1; None draws others each time.
        dtype: "float32" or "float64", or NumPy's own.
        batch_first: sequences are [N, T, .] instead of [T, N, .].

    Raises:
        SpecError, ArgumentError: naming what is out of range.
        NativeError: the compiled library is not there or does not fit.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        bias: Bias = "double",
        dropout: float = 0.0,
        init: str = "pytorch",
        seed: int | None = None,
        dtype: DTypeLike = "float32",
        batch_first: bool = False,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        weights = _drawn("lstm", sizes, bidirectional, bias, init, seed, dtype)
        super().__init__(weights, batch_first=batch_first, dropout=dropout, seed=seed)


class GRU(Layer):
    """A GRU with new weights.

    Args:
        reset: "after" computes n from r * (U h + b_hn) (cuDNN, PyTorch, Keras reset_after=True); "before" from
            U (r * h), the original formula. They are different functions of the same weights, so that there is no
            default: one must be named.

    The other arguments are `LSTM`'s.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        reset: Reset | None = None,
        bidirectional: bool = False,
        bias: Bias = "double",
        dropout: float = 0.0,
        init: str = "pytorch",
        seed: int | None = None,
        dtype: DTypeLike = "float32",
        batch_first: bool = False,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        weights = _drawn("gru", sizes, bidirectional, bias, init, seed, dtype, reset=reset)
        super().__init__(weights, batch_first=batch_first, dropout=dropout, seed=seed)


class RNN(Layer):
    """A plain RNN with new weights: h' = f(W x + U h + b).

    Args:
        activation: f, by name: "tanh", "relu", or any of `rnnbridge.activation`, e.g. "leaky_relu(0.01)".

    The other arguments are `LSTM`'s.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        activation: str = "tanh",
        bidirectional: bool = False,
        bias: Bias = "double",
        dropout: float = 0.0,
        init: str = "pytorch",
        seed: int | None = None,
        dtype: DTypeLike = "float32",
        batch_first: bool = False,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        weights = _drawn("rnn", sizes, bidirectional, bias, init, seed, dtype, activations=(activation,))
        super().__init__(weights, batch_first=batch_first, dropout=dropout, seed=seed)


def layer(
    weights: RNNWeights, batch_first: bool | None = None, *, dropout: float = 0.0, seed: int | None = None
) -> Layer:
    """A runnable layer from weights, e.g. of `rb.load`; it owns copies of them.

    Args:
        weights: the layer; `weights.astype("float64")` makes it run in double precision.
        batch_first: whether sequences are [N, T, .]. None means [T, N, .], with a warning if the source had the other
            order.
        dropout: between layers, in training only.
        seed: of dropout, 0 to 2**64 - 1; None draws another each time.

    Raises:
        Incompatible: with every reason why the engine does not run this layer.
        NativeError: the compiled library is not there or does not fit.
    """
    if not isinstance(weights, RNNWeights):
        raise ArgumentError(
            f"rb.layer was given a {type(weights).__name__}; it takes RNNWeights: one of bundle.layers after "
            "rb.load(file), or rb.from_framework(object)"
        )
    if batch_first is None and weights.origin.batch_first:
        warnings.warn(
            f"the layer {weights.origin.name!r} takes [N, T, I] in {weights.origin.framework} and [T, N, I] here; say "
            "rb.layer(weights, batch_first=True) or batch_first=False",
            stacklevel=2,
        )
    return Layer(weights, batch_first=bool(batch_first), dropout=dropout, seed=seed)


def _drawn(
    cell: Cell,
    sizes: tuple[int, int, int],
    bidirectional: bool,
    bias: Bias,
    init: str,
    seed: int | None,
    dtype: DTypeLike,
    **semantics: Any,
) -> RNNWeights:
    """New weights for the sizes (I, H, L) and what else the cell's spec says."""
    input_size, hidden_size, num_layers = sizes
    spec = RNNSpec(
        cell=cell,
        input_size=input_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        direction="bidirectional" if bidirectional else "forward",
        bias=bias,
        **semantics,
    )
    return drawn(spec, init, seed, dtype)
