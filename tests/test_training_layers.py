"""Training a layer as its users do: tapes, gradients asked for and added up, forms of sequences, memory."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.engine import memory
from rnnbridge.layers import Gradients, PackedRows
from tests import oracle_backward
from tests.gradients import Problem, by_name, judge, parts, same_bits
from tests.samples import CELLS, DIRECTIONS, spec_of

T, N, H = 7, 3, 5
every_cell = pytest.mark.parametrize("cell", CELLS)


def problem_of(cell: str = "lstm", lengths: str = "mixed", **changes: Any) -> Problem:
    spec = spec_of(cell, **{"hidden_size": H, "num_layers": 2, "direction": "bidirectional", **changes})
    return Problem(spec, T, N, lengths=lengths)


def turned(given: Any) -> Any:
    return tuple(map(turned, given)) if isinstance(given, tuple) else np.ascontiguousarray(given.swapaxes(0, 1))


def test_y_is_read_only_while_its_tape_lives() -> None:
    for changes in ({}, {"num_layers": 1, "merge": "none"}):
        problem = problem_of(**changes)
        y, state, tape = problem.forward(problem.layer())
        assert not any(part.flags.writeable for part in parts(y))
        assert all(part.flags.writeable for part in parts(state))
        with pytest.raises(ValueError, match="read-only"):
            parts(y)[0][0] = 0
        del tape
        assert all(part.flags.writeable for part in parts(y))


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@every_cell
def test_what_is_asked_for_is_the_same_alone(cell: str, direction: str) -> None:
    problem = problem_of(cell, direction=direction, num_layers=3)
    net = problem.layer()
    tape = problem.forward(net)[2]
    everything = by_name(problem.backward(net, tape))
    for want in ("x", "state", "weights", ("x", "weight_hh_l1"), *everything.keys() - {"x", "h0", "c0"}):
        got = problem.backward(net, tape, want=want)
        words = {want} if isinstance(want, str) else set(want)
        assert (got.x is not None) == ("x" in words)
        assert (got.state is not None) == ("state" in words)
        assert set(got.weights) == {n for n in net.weights if n in words or "weights" in words}
        arrays = {name: array for name, array in by_name(got).items() if array is not None}
        assert same_bits(arrays, {name: everything[name] for name in arrays})
    assert not any(part.any() for part in by_name(net.backward(tape)).values())


@every_cell
def test_each_gradient_of_an_output_may_be_left_out(cell: str) -> None:
    problem = problem_of(cell)
    net = problem.layer()
    tape = problem.forward(net)[2]
    names = [name for name in ("dy", "dhn", "dcn") if name in problem.given]
    for left_out in names:
        zeros = Problem(problem.spec, T, N, lengths="mixed")
        zeros.given[left_out][...] = 0
        given = {**problem.given, left_out: None}
        dstate = (given["dhn"], given["dcn"]) if "dcn" in given else given["dhn"]
        got = by_name(net.backward(tape, given["dy"], dstate))
        judge(got, zeros.exact(), zeros.exact(np.float32), "float32")


@every_cell
def test_gradients_are_written_and_added_to_the_callers_arrays(cell: str) -> None:
    problem = problem_of(cell)
    net = problem.layer()
    tape = problem.forward(net)[2]
    once = problem.backward(net, tape)
    into = copy.deepcopy(once)
    for array in by_name(into).values():
        array[...] = np.nan
    assert same_bits(by_name(problem.backward(net, tape, into=into)), by_name(once))
    twice = problem.backward(net, tape, into=into, accumulate=True)
    for name, array in by_name(twice).items():
        assert array is by_name(into)[name]
        assert np.allclose(array, 2 * by_name(once)[name], rtol=4 * np.finfo("f").eps, atol=0)
    only = Gradients(weights={"bias_ih_l0": into.weights["bias_ih_l0"].copy()})
    mixed = problem.backward(net, tape, into=only, accumulate=True)
    assert np.array_equal(mixed.x, once.x)
    assert np.allclose(mixed.weights["bias_ih_l0"], 3 * once.weights["bias_ih_l0"], rtol=1e-6)
    assert np.array_equal(mixed.weights["weight_ih_l1"], once.weights["weight_ih_l1"])


@pytest.mark.parametrize("direction", DIRECTIONS)
@every_cell
def test_batch_first_and_one_sequence(cell: str, direction: str) -> None:
    problem = problem_of(cell, direction=direction)
    wanted = by_name(problem.backward(net := problem.layer(), problem.forward(net)[2]))
    other = rb.layer(problem.weights, batch_first=True)
    y, _, tape = other.forward(turned(problem.given["x"]), problem.pair("h0", "c0"), problem.steps(), training=True)
    given = np.asfortranarray(turned(problem.given["dy"]))
    grads = other.backward(tape, given, problem.pair("dhn", "dcn"), into=Gradients(x=np.empty((N, T, 5), "f")))
    grads.x = grads.x.swapaxes(0, 1)
    assert same_bits({n: np.ascontiguousarray(a) for n, a in by_name(grads).items()}, wanted)
    assert y.shape == given.shape

    one = Problem(problem.spec, T, 1)
    wanted = by_name(one.backward(net := one.layer(), one.forward(net)[2]))
    alone = [tuple(part[:, 0] for part in parts(one.pair(*names))) for names in (("h0", "c0"), ("dhn", "dcn"))]
    state, dstate = (pair if len(pair) == 2 else pair[0] for pair in alone)
    tape = net.forward(one.given["x"][:, 0], state, training=True)[2]
    grads = net.backward(tape, one.given["dy"][:, 0], dstate)
    assert grads.x.shape == (T, 5)
    got = by_name(grads)
    assert same_bits({n: got[n].reshape(wanted[n].shape) for n in got}, wanted)


@every_cell
def test_the_directions_apart(cell: str) -> None:
    problem = problem_of(cell, num_layers=1, merge="none")
    net = problem.layer()
    tape = problem.forward(net)[2]
    dy = problem.dy()
    half = by_name(net.backward(tape, (dy[0], None)))
    same = by_name(net.backward(tape, (dy[0], 0 * dy[1])))
    assert same_bits(half, same)
    with pytest.raises(rb.ArgumentError, match=r"dy is a ndarray; it is the pair"):
        net.backward(tape, problem.given["dy"])


@pytest.mark.parametrize("order", ["input", "processing"])
@every_cell
def test_a_mask_with_holes_trains_as_the_steps_that_are_left(cell: str, order: str) -> None:
    for direction in ("reverse",) if order == "processing" else DIRECTIONS:
        problem = problem_of(cell, "none", num_layers=1, direction=direction, output_order=order)
        net, given = problem.layer(), problem.given
        mask = np.random.default_rng(5).random((T, N)) < 0.6
        mask[:, 1] = False
        tape = problem.forward(net, lengths=None, mask=mask)[2]
        grads = problem.backward(net, tape)
        wanted = dict.fromkeys(net.weights, 0)
        for n in range(N):
            kept = np.flatnonzero(mask[:, n])
            if not kept.size:
                assert not grads.x[:, n].any()
                continue
            states = {name: given[name][:, [n]] for name in ("h0", "c0", "dhn", "dcn") if name in given}
            of_y = T - 1 - kept[::-1] if order == "processing" else kept
            dy = given["dy"][of_y][:, [n]]
            alone = oracle_backward.gradients(problem.spec, net.weights, given["x"][kept][:, [n]], dy=dy, **states)
            assert np.allclose(grads.x[kept, n], alone["x"][:, 0], atol=1e-5)
            assert not grads.x[~mask[:, n], n].any()
            assert np.allclose(parts(grads.state)[0][:, n], alone["h0"][:, 0], atol=1e-5)
            wanted = {name: wanted[name] + alone[name] for name in wanted}
        for name, array in wanted.items():
            assert np.allclose(grads.weights[name], array, atol=1e-4)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_repeated_outputs_give_their_gradients_to_the_step_they_repeat(direction: str) -> None:
    problem = problem_of("gru_after", "zeros", direction=direction, num_layers=1)
    net, given = problem.layer(), problem.given
    tape = problem.forward(net, padding="repeat")[2]
    got = by_name(problem.backward(net, tape))
    folded = given["dy"].copy()
    valid = np.arange(T)[:, None] < problem.steps()
    for n, length in enumerate(problem.steps()):
        for t in range(length, T) if direction == "forward" and length else ():
            folded[length - 1, n] += given["dy"][t, n]
    given["dy"][...] = np.where(valid[..., None], folded, 0)  # going back, what is past a length comes before all steps
    assert same_bits(got, by_name(problem.backward(net, problem.forward(net)[2])))


def rows_of(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """batch_sizes, the batch's order by falling length, and the (t, n) of every row."""
    lengths = problem.steps()
    order = np.argsort(-lengths, kind="stable")
    sizes = np.array([(lengths > t).sum() for t in range(lengths.max())])
    t = np.repeat(np.arange(sizes.size), sizes)
    return sizes, order, t, np.concatenate([order[:size] for size in sizes])


@every_cell
def test_packed_rows_are_another_way_in(cell: str) -> None:
    problem = problem_of(cell)
    net, given = problem.layer(), problem.given
    net.dropout = 0.3
    y, state, tape = problem.forward(net)
    wanted = by_name(problem.backward(net, tape))
    sizes, order, t, n = rows_of(problem)
    net.dropout_offset = 0
    rows = PackedRows(given["x"][t, n], sizes, order)
    packed, final, tape = net.forward(rows, problem.pair("h0", "c0"), training=True)
    assert np.array_equal(packed.data, y[t, n])
    assert all(np.array_equal(a, b) for a, b in zip(parts(final), parts(state), strict=True))
    assert packed.batch_sizes is sizes
    for dy in (given["dy"][t, n], packed._replace(data=given["dy"][t, n])):
        grads = net.backward(tape, dy, problem.pair("dhn", "dcn"), into=Gradients(x=np.empty_like(rows.data)))
        assert np.array_equal(grads.x, wanted["x"][t, n])
        grads.x = wanted["x"]
        assert same_bits(by_name(grads), wanted)
    assert np.array_equal(net((rows.data, sizes, order), problem.pair("h0", "c0"))[0].data, net(*[
        given["x"], problem.pair("h0", "c0"), problem.steps()
    ])[0][t, n])  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((1,), "x is a tuple of 1"),
        ((np.zeros((3, 5), "f"), [1, 2]), "never rise"),
        ((np.zeros((3, 5), "f"), [2, 0]), "at least 1"),
        ((np.zeros((3, 5), "f"), []), "batch_sizes of packed rows is float64"),
        ((np.zeros((3, 5), "f"), [2, 1], [0, 0]), "each once"),
        ((np.zeros((4, 5), "f"), [2, 1]), r"x is \[4, 5\]; it is \[3, 5\]"),
        ((np.zeros((3, 5)), [2, 1]), "x is float64 and this layer is float32"),
    ],
)
def test_rows_that_are_not_packed(rows: Any, said: str) -> None:
    with pytest.raises(rb.ArgumentError, match=said):
        problem_of().layer()(rows)
    with pytest.raises(rb.ArgumentError, match="lengths of their own"):
        problem_of().layer()((np.zeros((3, 5), "f"), [2, 1]), lengths=[1, 1])


def test_weights_that_were_written_to_refuse_the_tape() -> None:
    problem = problem_of()
    net = problem.layer()
    _, _, tape = problem.forward(net)
    _, _, second = problem.forward(net)
    wanted = by_name(problem.backward(net, tape))
    before = net.weights["bias_ih_l1"].copy()
    net.weights["bias_ih_l1"][2] += 0.5
    for _ in range(2):
        with pytest.raises(rb.ArgumentError, match="the weights were replaced, run the forward again"):
            problem.backward(net, tape)
    fresh = problem.forward(net)[2]
    problem.backward(net, fresh)
    net.weights["bias_ih_l1"][...] = before
    with pytest.raises(rb.ArgumentError, match="the weights were replaced"):
        problem.backward(net, second)
    assert same_bits(by_name(problem.backward(net, problem.forward(net)[2])), wanted)


def test_a_gradient_step_in_place() -> None:
    problem = problem_of()
    net = problem.layer()
    before = {name: array.copy() for name, array in net.weights.items()}
    for name, grad in problem.backward(net, problem.forward(net)[2]).weights.items():
        net.weights[name] -= 0.5 * grad
        assert np.array_equal(net.weights[name], before[name] - np.float32(0.5) * grad)
    for name in ("bias_ih_l0", "bias_ih_l7"):
        with pytest.raises(TypeError, match="written to, not replaced"):
            net.weights[name] = before["bias_ih_l0"]


def test_a_frozen_layer_trains_its_inputs() -> None:
    problem = problem_of()
    net = problem.layer()
    wanted = by_name(problem.backward(net, problem.forward(net)[2]))
    tape = problem.forward(net)[2]
    net.freeze()
    assert same_bits(by_name(problem.backward(net, tape)), wanted)
    assert same_bits(by_name(problem.backward(net, problem.forward(net)[2])), wanted)


def test_weights_that_were_written_to_and_then_frozen() -> None:
    problem = problem_of()
    net = problem.layer()
    tape = problem.forward(net)[2]
    net.weights["bias_ih_l1"][2] += 0.5
    net.freeze()
    with pytest.raises(rb.ArgumentError, match="the weights were replaced"):
        problem.backward(net, tape)
    assert np.array_equal(
        problem.forward(net)[0], net(problem.given["x"], problem.pair("h0", "c0"), problem.steps())[0]
    )


def test_the_tape_is_small_where_backward_computes_again() -> None:
    spec = spec_of("lstm", hidden_size=64, num_layers=2)
    whole, again = (rb.Plan(spec, 256, 8, training=True, recompute=recompute) for recompute in (False, True))
    assert again.tape_nbytes < whole.tape_nbytes / 2
    problem = problem_of()
    assert problem.forward(problem.layer())[2].nbytes == rb.Plan(problem.spec, T, N, training=True).tape_nbytes


def test_tapes_come_from_kept_memory_that_trim_frees() -> None:
    problem = problem_of()
    net = problem.layer()
    gc.collect()  # what other tests left
    rb.trim()
    first = problem.forward(net)[2]
    block = first.block.ctypes.data
    del first
    kept = sum(one.nbytes for one in memory._free_tapes)
    second = problem.forward(net)[2]
    assert second.block.ctypes.data == block
    assert not memory._free_tapes
    many = [problem.forward(net)[2] for _ in range(31)]
    assert len({one.block.ctypes.data for one in many}) == 31
    del many, second
    assert len(memory._free_tapes) == memory._MOST_TAPES
    assert sum(one.nbytes for one in memory._free_tapes) == memory._MOST_TAPES * kept
    rb.trim()
    assert not memory._free_tapes


def test_a_tape_is_gone_when_nobody_has_it() -> None:
    problem = problem_of()
    net = problem.layer()
    tape = problem.forward(net)[2]
    gone = weakref.ref(tape)
    gc.disable()
    del tape
    gc.enable()
    assert gone() is None


def test_dropout_goes_on_in_copies_and_pickles() -> None:
    problem = problem_of()
    net = rb.layer(problem.weights, dropout=0.5, seed=11)
    problem.forward(net)
    twins = [net, copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    assert [twin.dropout_offset for twin in twins] == [1] * 4
    outputs = [problem.forward(twin)[0] for twin in twins]
    assert all(np.array_equal(outputs[0], other) for other in outputs)
    assert [twin.dropout_seed for twin in twins] == [11] * 4


class Offers:
    """Another library's array: memory, and no NumPy array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Held(Offers):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it lies on another device")


def test_arrays_of_other_libraries_are_read_in_place() -> None:
    problem = problem_of()
    net, given = problem.layer(), problem.given
    y, _, tape = problem.forward(net)
    wanted = by_name(problem.backward(net, tape))
    x, h0, c0, dy, dhn, dcn = (Offers(given[name]) for name in ("x", "h0", "c0", "dy", "dhn", "dcn"))
    same, _, tape = net.forward(x, (h0, c0), Offers(problem.steps()), training=True)
    assert np.array_equal(y, same)
    assert np.shares_memory(tape.arrays["x"], given["x"])
    assert np.shares_memory(tape.arrays["h0"], given["h0"])
    assert same_bits(by_name(net.backward(tape, dy, (dhn, dcn))), wanted)
    with pytest.raises(rb.ArgumentError, match="x is a Held that gives no NumPy array: it lies on another device"):
        net(Held(given["x"]))
