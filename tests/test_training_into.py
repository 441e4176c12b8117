"""Gradients into the caller's own arrays: those that cannot be right are refused before anything is written."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge import Gradients

T, N, H = 7, 3, 5


def net_and_call(**changes: Any) -> tuple[rb.LSTM, Any, dict[str, np.ndarray]]:
    """A layer whose two matrices have one shape, a tape, and the arrays of its call."""
    net, rng = rb.LSTM(H, H, seed=1), np.random.default_rng(2)
    shapes = {"x": (T, N, H), "h0": (1, N, H), "c0": (1, N, H), "dy": (T, N, H), "dhn": (1, N, H), "dcn": (1, N, H)}
    given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} | changes
    return net, net.forward(given["x"], (given["h0"], given["c0"]), training=True)[2], given


def refused(net: rb.LSTM, tape: Any, given: dict[str, np.ndarray], into: Gradients, said: str) -> None:
    with pytest.raises(rb.ArgumentError, match=said):
        net.backward(tape, given["dy"], (given["dhn"], given["dcn"]), into=into)


def test_arrays_that_share_memory() -> None:
    net, tape, given = net_and_call()
    one, state = np.full((4 * H, H), 3, np.float32), np.full((1, N, H), 3, np.float32)
    both = {"weight_ih_l0": one, "weight_hh_l0": one}
    refused(net, tape, given, Gradients(weights=both), "into's weight_hh_l0 shares memory with weight_ih_l0")
    refused(net, tape, given, Gradients(state=(state, state)), "into's state c shares memory with state")
    refused(net, tape, given, Gradients(x=given["x"]), "into's x shares memory with x")
    refused(net, tape, given, Gradients(x=given["dy"]), "into's x shares memory with dy")
    refused(net, tape, given, Gradients(state=(given["h0"], state)), "into's state shares memory with h0")
    refused(net, tape, given, Gradients(state=(state, given["dcn"])), "into's state c shares memory with dcn")
    refused(net, tape, given, Gradients(weights=dict(net.weights)), "into's weight_ih_l0 shares memory with")
    assert (one == 3).all()
    assert (state == 3).all()


def test_arrays_one_step_apart_in_one_buffer() -> None:
    buffer = np.ones((T + 1, N, H), np.float32)
    net, tape, given = net_and_call(dy=buffer[:-1])
    refused(net, tape, given, Gradients(x=buffer[1:]), "into's x shares memory with dy")
    refused(net, tape, given, Gradients(x=np.broadcast_to(np.ones((1, N, H), "f"), (T, N, H))), "read-only")
    flat = np.lib.stride_tricks.as_strided(np.ones((N, H), "f"), (T, N, H), (0, 4 * H, 4))
    refused(net, tape, given, Gradients(x=flat), "a stride of 0 writes several rows to one place")
    assert (buffer == 1).all()


def test_arrays_side_by_side_in_one_buffer_are_apart() -> None:
    buffer = np.ones((T, N, 2 * H), np.float32)
    net, tape, given = net_and_call(dy=buffer[..., :H])
    wanted = net.backward(tape, given["dy"], want="x").x
    got = net.backward(tape, given["dy"], want="x", into=Gradients(x=buffer[..., H:])).x
    assert np.array_equal(got, wanted)


def test_names_that_no_weight_has() -> None:
    net, tape, given = net_and_call()
    array = np.zeros((4 * H, H), np.float32)
    refused(
        net, tape, given, Gradients(weights={"weight_ih_10": array}), "into has 'weight_ih_10'; the weights are weight_"
    )
    refused(net, tape, given, Gradients(weights=[array]), "into's weights is a list; it is a mapping")


def test_what_is_not_asked_for_stays_as_it_is() -> None:
    net, tape, given = net_and_call()
    kept = np.full((4 * H, H), 3, np.float32)
    grads = net.backward(tape, given["dy"], want="x", into=Gradients(weights={"weight_ih_l0": kept}))
    assert (kept == 3).all()
    assert grads.weights == {}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_tape_is_not_copied(again: Any) -> None:
    with pytest.raises(TypeError, match="a tape belongs to one forward"):
        again(net_and_call()[1])
