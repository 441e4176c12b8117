"""Dropout between layers: the random numbers of its definition, the same mask everywhere, none in evaluation."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.engine import Dropout, aligned_empty
from tests import oracle, philox
from tests.gradients import SEED, Problem, by_name, same_bits
from tests.samples import CELLS, spec_of, weights_of

# Counter and key -> words: the known answers of Random123's kat_vectors for philox4x32-10 (Salmon et al. 2011).
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
T, N = 5, 7
SPEC = spec_of("lstm", num_layers=3, direction="bidirectional", hidden_size=11)
OFFSET = slice(40, 44)  # in the 48 bytes that a tape begins with (TapeHeader)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_the_generator_gives_its_known_answers(counter: Any, key: Any, words: Any) -> None:
    assert philox.philox(counter, key) == words


def dropped(spec: rb.RNNSpec, dropout: Dropout, x: np.ndarray, weights: Any) -> np.ndarray:
    """y of one training call on memory of our own."""
    plan = rb.Plan(spec, *x.shape[:2], training=True)
    y = np.empty((*x.shape[:2], spec.output_size), "f")
    memory = {"workspace": aligned_empty(plan.workspace_nbytes), "tape": aligned_empty(plan.tape_nbytes)}
    plan.forward(x, y=y, packed=plan.pack(weights), dropout=dropout, **memory)
    return y


@pytest.mark.parametrize(("seed", "offset", "sample_offset"), [(0, 0, 0), (2**64 - 1, 2**32 - 1, 2**32 - 3), (7, 3, 5)])
def test_every_number_of_the_definition_reaches_the_mask(seed: int, offset: int, sample_offset: int) -> None:
    problem = Problem(SPEC, T, N)
    masks = philox.masks(SPEC, T, N, 0.37, seed, offset, sample_offset)
    h0 = np.zeros_like(problem.given["h0"])
    exact = oracle.run(SPEC, problem.weights.arrays, problem.given["x"], h0, h0, masks=masks)[0]
    dropout = Dropout(p=0.37, seed=seed, offset=offset, sample_offset=sample_offset)
    got = dropped(SPEC, dropout, problem.given["x"], problem.weights.arrays)
    assert np.abs(got - exact).max() <= 64 * np.finfo("f").eps * np.abs(exact).max()


def test_a_batch_in_parts_drops_what_it_drops_in_one() -> None:
    problem = Problem(SPEC, T, N)
    x, weights = problem.given["x"], problem.weights.arrays
    whole = dropped(SPEC, Dropout(p=0.5, seed=SEED), x, weights)
    part = dropped(SPEC, Dropout(p=0.5, seed=SEED, sample_offset=3), np.ascontiguousarray(x[:, 3:]), weights)
    assert np.array_equal(whole[:, 3:], part)


@pytest.mark.parametrize("cell", CELLS)
def test_evaluation_has_none_and_every_training_call_another(cell: str) -> None:
    problem = Problem(spec_of(cell, num_layers=2, hidden_size=11), T, N)
    plain, net = problem.layer(), rb.layer(problem.weights, dropout=0.5, seed=3)
    x = problem.given["x"]
    assert np.array_equal(net(x)[0], plain(x)[0])
    assert np.array_equal(net.forward(x)[0], plain(x)[0])
    assert net.dropout_offset == 0
    first, second = (net.forward(x, training=True)[0] for _ in range(2))
    assert net.dropout_offset == 2
    assert not np.array_equal(first, second)
    net.dropout_offset = 0
    assert np.array_equal(net.forward(x, training=True)[0], first)
    net.dropout_offset, net.dropout_seed = 0, 4
    assert not np.array_equal(net.forward(x, training=True)[0], first)
    net.dropout = 0.0
    assert np.array_equal(net.forward(x, training=True)[0], plain(x)[0])
    other = rb.layer(problem.weights, dropout=0.5)
    assert other.dropout_seed != rb.layer(problem.weights, dropout=0.5).dropout_seed


def test_backward_drops_what_its_forward_dropped() -> None:
    problem = Problem(SPEC, T, N, lengths="zeros", dropout=0.5)
    net = problem.layer()
    tape = problem.forward(net)[2]
    wanted = by_name(problem.backward(net, tape))
    problem.forward(net)
    net.dropout, net.dropout_seed = 0.1, 99
    assert same_bits(by_name(problem.backward(net, tape)), wanted)


def test_all_and_nothing() -> None:
    problem = Problem(SPEC, T, N)
    x, weights = problem.given["x"], problem.weights.arrays
    assert np.array_equal(dropped(SPEC, Dropout(), x, weights), rb.layer(problem.weights)(x)[0])
    nothing = dropped(SPEC, Dropout(p=1), x, weights)
    assert np.isfinite(nothing).all()
    assert np.array_equal(nothing, dropped(SPEC, Dropout(p=1, seed=5), -x, weights))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 1.5}, "dropout's p is 1.5; it is 0 to 1"),
        ({"p": "a"}, "dropout's p is 'a'"),
        ({"p": float("nan")}, "dropout's p is nan"),
        ({"seed": -1}, "dropout's seed is -1; it is a whole number of at least 0"),
        ({"seed": 2**64}, "dropout's seed is 18446744073709551616; it is at most"),
        ({"offset": 2**32}, "dropout's offset is 4294967296"),
        ({"sample_offset": 0.5}, "dropout's sample_offset is 0.5"),
    ],
)
def test_a_dropout_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(rb.ArgumentError, match=said):
        Dropout(**options)
    names = {"p": "dropout", "seed": "dropout_seed", "offset": "dropout_offset"}
    net = Problem(SPEC, T, N).layer()
    for name, value in options.items():
        if name in names:
            setattr(net, names[name], value)
            with pytest.raises(rb.ArgumentError, match=said):
                net.forward(np.zeros((T, N, 5), "f"), training=True)


def test_threads_that_train_one_layer_at_once_drop_different_features() -> None:
    net = rb.layer(weights_of(SPEC), dropout=0.5, seed=3)
    net.freeze()
    x, calls, before = np.ones((1, 1, SPEC.input_size), np.float32), 500, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(5) as pool:
            tapes = list(pool.map(lambda _: net.forward(x, training=True)[2], range(calls)))
    finally:
        sys.setswitchinterval(before)
    offsets = {int(tape.block[OFFSET].view(np.uint32)[0]) for tape in tapes}
    assert offsets == set(range(calls))
    assert net.dropout_offset == calls


@pytest.mark.parametrize("make", [rb.LSTM, partial(rb.GRU, reset="before"), partial(rb.RNN, activation="tanh")])
def test_dropout_with_nothing_to_drop_is_told(make: Any) -> None:
    with pytest.warns(UserWarning, match=r"dropout=0.5 has no effect.*num_layers=1") as told:
        make(3, 5, dropout=0.5)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="has no effect") as told:
        rb.layer(weights_of(spec_of("lstm")), dropout=0.5)
    assert told[0].filename == __file__
