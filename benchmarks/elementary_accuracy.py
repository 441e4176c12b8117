"""The error of sigmoid and tanh over all 2^32 float32 numbers, in units in the last place: some minutes on one core.

    python benchmarks/elementary_accuracy.py

Seen through an RNN of one step whose input weights are 1 and whose others are 0, so that y = f(x), and judged by
NumPy's float64. tests/native/test_elementary.py looks at a sample of both dtypes each time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import rnnbridge as rb

Array = NDArray[np.float32]
H = 64
CHUNK = 2**22
SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def layer(name: str) -> rb.Layer:
    """y [N, H] = f(x [N, H]) for finite x."""
    spec = rb.RNNSpec(cell="rnn", input_size=H, hidden_size=H, bias="none", activations=(name,))
    arrays = {"weight_ih_l0": np.eye(H, dtype="f"), "weight_hh_l0": np.zeros((H, H), "f")}
    net = rb.layer(rb.RNNWeights(spec, arrays))
    net.freeze()
    return net


def exact(name: str, x: Array) -> NDArray[np.float64]:
    """By float64, whose own error is below 2^-28 of a float32's last place."""
    wide = x.astype(np.float64)
    if name == "tanh":
        return np.tanh(wide)
    small = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1, small) / (1 + small)


def worst(name: str) -> tuple[float, float, float]:
    """The largest error where the result is a normal number, its place, and the largest result elsewhere."""
    net, error, place, below = layer(name), 0.0, 0.0, 0.0
    for start in range(0, 2**32, CHUNK):
        x = (np.arange(CHUNK, dtype=np.uint32) + np.uint32(start)).view(np.float32)
        x = np.where(np.isfinite(x), x, np.float32(0))
        y, wanted = net(x.reshape(1, -1, H))[0].ravel(), exact(name, x)
        normal = np.abs(wanted) >= SMALLEST_NORMAL
        below = max(below, float(np.abs(y[~normal]).max(initial=0)))
        errors = np.abs(y - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
        errors[~normal] = 0
        if errors.max() > error:
            error, place = float(errors.max()), float(x[errors.argmax()])
    return error, place, below


if __name__ == "__main__":
    for name in ("sigmoid", "tanh"):
        error, place, below = worst(name)
        print(f"{name}: {error:.3f} ulp at {place:.9g}; where it is no normal number, at most {below:.3g}")
