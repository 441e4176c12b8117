"""What the makers of optimisers, schedules and layers are given, read. Knows nothing of training."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from rnnbridge.errors import ArgumentError


def real(name: str, value: Any, least: float = 0.0, below: float = math.inf) -> float:
    """The number, if it is one of at least `least` and below `below`.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and least <= float(value) < below:
        return float(value)
    bound = "" if below == math.inf else f" and below {below:g}"
    raise ArgumentError(f"{name} is {value!r}; it is a number of at least {least:g}{bound}")


def one_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    """The word, if it is one of these.

    Raises:
        ArgumentError: it is not.
    """
    if isinstance(value, str) and value in accepted:
        return value
    raise ArgumentError(f"{name} is {value!r}; it is {' or '.join(map(repr, accepted))}")


def said(value: Any) -> str:
    """What was given, for a message: "float32 [3, 5]", or "a list"."""
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
