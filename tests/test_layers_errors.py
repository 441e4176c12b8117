"""Bad calls of a layer: each says what was given and what is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from tests.running import H, N, layer_of, x_of


class Tensor:
    """Stands for another library's array."""


BAD_CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "T = 0": ({"x": x_of()[:0]}, r"x is \[0, 3, 5\]: T = 0"),
    "features": ({"x": x_of()[..., :4]}, r"x is \[7, 3, 4\]; it is \[T, N, I\] or \[T, I\] with I = 5"),
    "axes": ({"x": x_of()[None]}, r"x is \[1, 7, 3, 5\]"),
    "no axes": ({"x": np.zeros((), "f")}, r"x is \[\]; it is"),
    "float64": ({"x": x_of(dtype="float64")}, r"x\.astype\(np\.float32\), or make a float64 layer \(dtype='float64'"),
    "integers": ({"x": x_of().astype(int)}, "x is int64 and this layer is float32"),
    "byte order": ({"x": x_of().astype(">f4")}, "this layer is float32"),
    "list": ({"x": x_of().tolist()}, r"x is a list; it is a NumPy array: np\.asarray\(x, np\.float32\)"),
    "tensor": ({"x": Tensor()}, "x is a Tensor"),
    "no cell state": ({"state": np.zeros((1, 3, 17), "f")}, r"state is float32 \[1, 3, 17\].*a pair \(h, c\)"),
    "three states": ({"state": (1, 2, 3)}, "state is a tuple of 3"),
    "state shapes": (
        {"state": (np.zeros((2, 3, 17), "f"), np.zeros((1, 3, 16), "f"))},
        r"state h is \[2, 3, 17\]; it is \[1, 3, 17\]; state c is \[1, 3, 16\]; it is \[1, 3, 17\]",
    ),
    "state dtype": ({"state": (np.zeros((1, 3, 17)), np.zeros((1, 3, 17), "f"))}, "state h is float64"),
    "state list": ({"state": ([1.0], [2.0])}, "state h is a list.*state c is a list"),
    "too long": ({"lengths": [1, 8, 2]}, r"lengths\[1\] is 8; accepted are 0 to T = 7"),
    "negative": ({"lengths": [1, 2, -1]}, r"lengths\[2\] is -1"),
    "beyond int64": ({"lengths": np.array([1, 2, 2**63], np.uint64)}, r"lengths\[2\] is"),
    "too few": ({"lengths": [1, 2]}, r"lengths is int64 \[2\]; it is one whole number per sequence, \[3\]"),
    "fractions": ({"lengths": [1.0, 2.0, 3.0]}, "lengths is float64"),
    "flags": ({"lengths": [True, False, True]}, "lengths is bool"),
    "one number": ({"lengths": 4}, r"lengths is int64 \[\]"),
    "mask dtype": ({"mask": np.ones((7, 3))}, r"mask is float64 \[7, 3\]; it is bool \[T, N\] = \[7, 3\]"),
    "mask shape": ({"mask": np.ones((3, 7), bool)}, r"mask is bool \[3, 7\]"),
    "mask and lengths": ({"mask": np.ones((7, 3), bool), "lengths": [1, 2, 3]}, "both given"),
    "padding": ({"padding": "same"}, "padding is 'same'; it is 'zero' or 'repeat'"),
    "ragged": ({"lengths": [[1], [1, 2]]}, r"lengths is \[\[1\], \[1, 2\]\]; it is one whole number per sequence"),
    "masked": ({"x": np.ma.array(x_of(), mask=True)}, "x is a masked array, whose mask would be lost"),
    "threads": ({"threads": 0}, "threads is 0; it is a whole number of at least 1"),
    "threads not a number": ({"threads": "all"}, "threads is 'all'"),
    "threads and a half": ({"threads": 1.5}, "threads is 1.5"),
    "threads beyond int32": ({"threads": 2**32 + 1}, "threads is 4294967297; it is at most"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_what_was_given_and_what_is_accepted(name: str) -> None:
    arguments, said = BAD_CALLS[name]
    with pytest.raises(rb.ArgumentError, match=said):
        layer_of()(**{"x": x_of(), **arguments})


def test_other_refusals() -> None:
    with pytest.raises(rb.ArgumentError, match="one array h"):
        layer_of("gru_after")(x_of(), (np.zeros((1, N, H), "f"),))
    with pytest.raises(rb.ArgumentError, match="padding='repeat' needs one direction"):
        layer_of(direction="bidirectional")(x_of(), lengths=[1, 2, 3], padding="repeat")
    for direction in ("reverse", "bidirectional"):
        with pytest.raises(rb.ArgumentError, match=f"step runs forward in time, and this layer is {direction}"):
            layer_of(direction=direction).step(x_of()[0])
        with pytest.raises(rb.ArgumentError, match="stream runs forward in time"):
            layer_of(direction=direction).stream(N)
    with pytest.raises(rb.ArgumentError, match=r"x_t is \[3, 4\]; it is \[N, I\] or \[I\]"):
        layer_of().step(x_of()[0, :, :4])
    for batch in (0, "a", 2.0, None, 2**64):
        with pytest.raises(rb.ArgumentError, match=f"N is {batch!r}; it is"):
            layer_of().stream(batch)
    with pytest.raises(rb.ArgumentError, match="threads is 'a'"):
        layer_of().stream(N, threads="a")
    with pytest.raises(rb.ArgumentError, match=r"x_t is float32 \[2, 5\]; it is float32 \[N, I\] = \[3, 5\]"):
        layer_of().stream(N)(x_of()[0, :2])
    with pytest.raises(rb.ArgumentError, match="x_t is a list"):
        layer_of().stream(N)(x_of()[0].tolist())
    with pytest.raises(rb.ArgumentError, match="state h is"):
        layer_of("gru_after").stream(N).reset(np.zeros((1, 2, H), "f"))
    with pytest.raises(rb.ArgumentError, match="given a dict; it takes RNNWeights"):
        rb.layer({})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dropout": "a"}, "dropout is 'a'; it is at least 0 and below 1"),
        ({"dropout": None}, "dropout is None"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"seed": "a"}, "seed is 'a'; it is a whole number of at least 0"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616; it is at most 18446744073709551615"),
        ({"dtype": "float16"}, "dtype is 'float16'; it is 'float32' or 'float64'"),
        ({"dtype": np.int32}, "dtype is <class 'numpy.int32'>"),
        ({"dtype": None}, "dtype is None"),
    ],
)
def test_an_option_that_is_none_says_what_is_accepted(options: dict[str, Any], said: str) -> None:
    for make in (rb.LSTM, lambda *sizes, **rest: rb.GRU(*sizes, reset="after", **rest)):
        with pytest.raises(rb.ArgumentError, match=said):
            make(5, H, **options)


@pytest.mark.parametrize("sizes", [(5, 2.0), (5, "a"), (None, H), (5, H, 1.5), (5, True)])
def test_a_size_that_is_none_says_what_is_accepted(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(rb.SpecError, match="it is a whole number of at least 1"):
        rb.LSTM(*sizes)
