"""Keeping gradients small, in place. Knows arrays by name only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.training.arguments import real

Array = NDArray[Any]


def clip_by_norm(gradients: Mapping[str, Array], limit: float) -> float:
    """Scale all gradients together so that their norm is at most `limit` (`torch.nn.utils.clip_grad_norm_`).

    Returns:
        The norm of all of them as one vector, before.

    Raises:
        ArgumentError: the limit is below 0.
    """
    norm = math.sqrt(sum(float(np.square(one, dtype=np.float64).sum()) for one in gradients.values()))
    scale = real("the limit of the norm", limit) / (norm + 1e-6)
    if scale < 1:
        for gradient in gradients.values():
            gradient *= scale
    return norm


def clip_by_value(gradients: Mapping[str, Array], limit: float) -> None:
    """Bring every number of every gradient into -limit to limit (`torch.nn.utils.clip_grad_value_`).

    Raises:
        ArgumentError: the limit is below 0.
    """
    limit = real("the limit of the values", limit)
    for gradient in gradients.values():
        np.clip(gradient, -limit, limit, out=gradient)
