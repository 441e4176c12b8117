"""Running step by step: `step` and `stream` against a full run."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import rnnbridge as rb
from tests.running import N, equal, layer_of, state_of, x_of
from tests.samples import CELLS


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_steps_and_streams_give_the_bits_of_a_full_run(cell: str, layers: int, batch: int) -> None:
    for dtype in ("float32", "float64"):
        net = layer_of(cell, num_layers=layers, dtype=dtype)
        x, state = x_of(batch, dtype), state_of(net, batch)
        y, final = net(x, state)
        stream, stepped = net.stream(batch), state
        for _ in range(2):
            stream.reset(state)
            streamed = [stream(x_t).copy() for x_t in x]
            assert equal(np.stack(streamed), y)
            assert equal(stream.state, final)
        for t, x_t in enumerate(x):
            y_t, stepped = net.step(x_t, stepped)
            assert equal(y_t, y[t])
        assert equal(stepped, final)
        stream.reset()
        assert equal(stream(x[0]), net.step(x[0])[0])


def test_a_step_of_one_sequence_and_of_a_batch_first_layer() -> None:
    net = layer_of(batch_first=True)
    h, c = state_of(net)
    y, final = net.step(x_of()[0], (h, c))
    alone, ends = net.step(x_of()[0, 2], (h[:, 2], c[:, 2]))
    assert equal((alone, *ends), (y[2], *(part[:, 2] for part in final)))


def test_a_stream_keeps_its_weights_and_its_state_is_a_copy() -> None:
    net, x = layer_of(), x_of()
    wanted, stream = net.step(x[0])[0], net.stream(N)
    net.weights["weight_ih_l0"][...] = 0
    y_t = stream(x[0])
    assert equal(y_t, wanted)
    assert not equal(net.step(x[0])[0], wanted)
    state = stream.state
    kept = tuple(part.copy() for part in state)
    assert stream(x[1]) is y_t
    assert equal(state, kept)
    with pytest.raises(ValueError, match="read-only"):
        y_t[...] = 0


def test_a_step_of_a_stream_allocates_nothing() -> None:
    net = rb.LSTM(61, 251, seed=0)
    stream, x_t = net.stream(13), np.ones((13, 61), "f")
    stream(x_t)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(9):
        stream(x_t)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    # Python's own small objects come and go; the smallest array of the step, x_t, has 3172 bytes.
    assert peak < x_t.nbytes
