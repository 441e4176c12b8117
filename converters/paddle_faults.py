"""What Paddle is known to do wrong, with the reason, and whom it meets. Knows no file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rnnbridge.convention import Convention
from rnnbridge.converters.paddle_rows import CELLS, LAYERS
from rnnbridge.weights import RNNWeights


@dataclass(frozen=True)
class Fault:
    """A fault of one version.

    Args:
        meets: whether a layer, as one row holds it, meets it.
        notice: what happens, and what to do.
        because: where it was seen.
    """

    meets: Callable[[Convention, RNNWeights], bool]
    notice: str
    because: str

    def __str__(self) -> str:
        return f"{self.notice} ({self.because})"


def _without_a_bias(row: Convention, weights: RNNWeights) -> bool:
    biases = [array for name, array in weights.arrays.items() if name.startswith("bias")]
    return row in LAYERS and (weights.spec.bias != "double" or not all(array.any() for array in biases))


FAULTS = (
    Fault(
        _without_a_bias,
        "make the layer with both its biases, one of which is zero: Paddle crashes in a layer with bias_ih_attr=False "
        "or bias_hh_attr=False",
        "a segmentation fault in nn.LSTM, nn.GRU and nn.SimpleRNN of 3.3.1; PaddlePaddle/Paddle#70231",
    ),
    Fault(
        lambda row, weights: row in LAYERS and weights.spec.proj_size > 0,
        "with proj_size Paddle's outputs past a sequence's length are not zero, and its state_dict has shifted names "
        "beside those under `cell`: mask the outputs, and use no name such as weight_ih_l0_reverse",
        "measured with 3.3.1",
    ),
    Fault(
        lambda row, weights: row in CELLS and weights.spec.proj_size > 0,
        "give an LSTMCell with proj_size its initial states: those that it makes have the sizes of h and c exchanged",
        "an error of shapes in 3.3.1",
    ),
    Fault(
        lambda row, weights: row in LAYERS and weights.origin.storage_dtype in ("float16", "bfloat16"),
        "Paddle makes no such layer of half precision on a CPU: load the file into one of float32",
        "coalesce_tensor raises in 3.3.1",
    ),
)


def notices(layers: Iterable[tuple[Convention, RNNWeights]]) -> tuple[str, ...]:
    """What users of these layers are told, each fault once."""
    layers = list(layers)
    return tuple(str(fault) for fault in FAULTS if any(fault.meets(*layer) for layer in layers))
