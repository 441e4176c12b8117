"""How many bytes a training plan asks for: the formulas of rnb_sizes in rnnbridge.h, computed here from their words."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import rnnbridge as rb
from tests.samples import CELLS, spec_of

T, N = 7, 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_tape_holds_a_few_numbers_per_unit_and_no_more(cell: str, dtype: str) -> None:
    """rnb_sizes in rnnbridge.h, computed here from its words: 5H for an LSTM, 4H and 3H for GRU after and before."""
    e = np.dtype(dtype).itemsize
    per_unit = {"lstm": 5, "gru_after": 4, "gru_before": 3}.get(cell, 0)
    shapes = ((1, "forward", "concat"), (3, "bidirectional", "concat"), (2, "bidirectional", "sum"))
    for layers, direction, merge in shapes:
        spec = spec_of(cell, hidden_size=37, num_layers=layers, direction=direction, merge=merge)
        plan = rb.Plan(spec, T, N, training=True, dtype=dtype)
        wide = [-(-width * e // 64) * 64 for width in (37, spec.output_size)]
        exact = 48 + 8 * N + plan.state_shape[0] * T * N * wide[0] * (per_unit + (merge != "concat"))
        exact += (layers - 1) * T * N * wide[1]
        assert exact <= plan.tape_nbytes < exact + 4 * 64  # each term is rounded up to a multiple of 64


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_tape_to_be_recomputed_holds_states_where_stretches_start(cell: str, direction: str) -> None:
    """And each lower layer's output only where both directions of the next one need all of it."""
    T, layers, H = 1031, 3, 16  # H fills a cache line
    spec = spec_of(cell, hidden_size=H, num_layers=layers, direction=direction)
    plan, starts = rb.Plan(spec, T, N, training=True, recompute=True), -(-T // -(-512 // N)) - 1
    D, cells = spec.num_directions, cell == "lstm"
    states = starts * (layers * D * cells + (layers - 1) * (D == 1))
    exact = 48 + 8 * N + 4 * N * (states * H + (D == 2) * (layers - 1) * T * D * H)
    assert exact <= plan.tape_nbytes < exact + 4 * 64


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_other_sizes_of_training_are_the_documented_polynomials(cell: str, direction: str, recompute: bool) -> None:
    """rnb_sizes in rnnbridge.h, computed here from its words."""
    G, S, C = {"lstm": (4, 4, 1), "gru_after": (3, 4, 0), "gru_before": (3, 3, 0)}.get(cell, (1, 1, 0))
    K = 3 if cell in ("lstm", "gru_before") else 2
    up = lambda width, unit: -(-width // unit) * unit  # noqa: E731
    for layers, T, N, dtype in product((1, 2, 3), (7, 401), (3, 521), ("float32", "float64")):
        spec = spec_of(cell, hidden_size=37, num_layers=layers, direction=direction, input_size=41)
        plan = rb.Plan(spec, T, N, training=True, recompute=recompute, dtype=dtype)
        e, D, H, I, Y = np.dtype(dtype).itemsize, spec.num_directions, 37, 41, spec.output_size
        lane = 64 // e
        h, y, steps = up(H, lane), up(Y, lane), min(T, -(-512 // N))
        R, V, Z, B = steps * N, layers if D == 1 else 1, N * (steps if D == 1 else T), min(layers - 1, 2)
        inputs = [spec.layer_input_size(layer) for layer in range(layers)]
        packed = sum(D * h * (S + G * (size + H)) + D * G * h * (h + up(size, lane)) for size in inputs)
        assert plan.packed_nbytes == e * packed
        A, over = max(I, Y if layers > 1 else 0), up(R, 16) + 16
        forward = e * D * ((96 + N) * S * h + V * N * K * (h + lane)) + e * B * Z * y + 16 * N
        forward += 8 * (T + 1) + (layers > 1) * e * D * (96 + N) * y
        backward = e * D * (R * (2 * S * h + lane + up(A, lane)) + over * (A + H + 2) + 3 * N * (h + lane))
        backward += e * D * V * (G * h * (A + H + 2) + N * (1 + C) * (h + lane)) + 16 * N + 8 * (T + 1)
        backward += (D == 2) * e * B * T * N * y
        if cell == "gru_before":
            backward += e * D * (over * H + R * h + V * N * (h + lane))
        if recompute:
            backward += e * D * V * R * (S + C) * h + (V > 1) * e * V * R * y
        terms = 20 + 10 * V * D  # each rounded up to a multiple of 64
        assert max(forward, backward) <= plan.workspace_nbytes < max(forward, backward) + 64 * terms
