"""Layers as their users call them: constructors, orders, states, lengths, masks, padding, steps, streams, errors."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.layers import Layer
from rnnbridge.weights import Origin, RNNWeights
from tests.samples import CELLS, DIRECTIONS, inputs_of, spec_of, weights_of

T, N, I, H = 7, 3, 5, 17


def layer_of(cell: str = "lstm", batch_first: bool = False, dtype: str = "float32", **changes: Any) -> Layer:
    spec = spec_of(cell, hidden_size=H, **changes)
    arrays = {name: array / 4 for name, array in weights_of(spec, dtype=dtype).arrays.items()}
    return rb.layer(RNNWeights(spec, arrays), batch_first=batch_first)


def state_of(net: Layer, batch: int = N) -> Any:
    given = inputs_of(net.spec, batch, dtype=net.dtype.name)
    return given.h0 if given.c0 is None else (given.h0, given.c0)


def x_of(batch: int = N, dtype: str = "float32") -> np.ndarray:
    return inputs_of(spec_of("lstm"), batch, T, dtype=dtype).x


def parts(state: Any) -> tuple[np.ndarray, ...]:
    return state if isinstance(state, tuple) else (state,)


def equal(one: Any, other: Any) -> bool:
    pairs = zip(parts(one), parts(other), strict=True)
    return all(a.shape == b.shape and np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def test_the_constructors() -> None:
    lstm = rb.LSTM(
        input_size=11,
        hidden_size=7,
        num_layers=2,
        bidirectional=True,
        bias="double",
        dropout=0.1,
        seed=0,
        dtype="float64",
    )
    assert lstm.spec == spec_of("lstm", input_size=11, hidden_size=7, num_layers=2, direction="bidirectional")
    assert (lstm.dtype, lstm.dropout, lstm.batch_first) == (np.float64, 0.1, False)
    assert rb.GRU(11, 7, reset="before").spec == spec_of("gru_before", input_size=11, hidden_size=7)
    assert rb.GRU(11, 7, 2, reset="after", bias="single").spec.bias == "single"
    assert rb.RNN(11, 7, activation="leaky_relu(0.1)").spec.activations[0].alpha == 0.1
    for missing, said in ((lambda: rb.GRU(11, 7), "reset"), (lambda: rb.RNN(11, 7), "activation")):
        with pytest.raises(TypeError, match=said):
            missing()
    for wrong in (
        lambda: rb.LSTM(11, 7, dropout=1.0),
        lambda: rb.LSTM(11, 7, dtype="float16"),
        lambda: rb.LSTM(0, 7),
        lambda: rb.LSTM(11, 7, bias=True),
        lambda: rb.GRU(11, 7, reset="sometimes"),
        lambda: rb.RNN(11, 7, activation="tanhh"),
    ):
        with pytest.raises(rb.RNNBridgeError):
            wrong()


def test_new_weights_are_drawn_from_the_seed_within_the_bound() -> None:
    one, same, other = (rb.LSTM(I, H, seed=seed) for seed in (0, 0, 1))
    for name, array in one.weights.items():
        assert array.shape == one.spec.weight_shapes()[name]
        assert np.array_equal(array, same.weights[name])
        assert not np.array_equal(array, other.weights[name])
        assert np.abs(array).max() <= np.float32(1 / np.sqrt(H))
        assert np.unique(array).size == array.size
    assert not np.array_equal(rb.LSTM(I, H).weights["bias_hh_l0"], rb.LSTM(I, H).weights["bias_hh_l0"])
    assert np.array_equal(
        rb.LSTM(I, H, seed=0, dtype="float64").weights["weight_ih_l0"].astype("f"), one.weights["weight_ih_l0"]
    )


def test_the_repr_shows_the_spec_and_the_order_of_sequences() -> None:
    assert repr(rb.GRU(I, H, reset="after")) == (
        "<GRU reset-after 5 -> 17, 1 layer, forward, bias double, float32, x [T, N, I]>"
    )
    net = rb.LSTM(I, H, 2, bidirectional=True, dropout=0.3, batch_first=True)
    net.freeze()
    assert "2 layers, bidirectional" in repr(net)
    assert repr(net).endswith("x [N, T, I], dropout 0.3, frozen>")
    assert "x_t [3, 5] -> y_t [3, 17]" in repr(layer_of().stream(N))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_batch_first_gives_the_same_bits_without_copies(cell: str, direction: str) -> None:
    one, other = (layer_of(cell, first, num_layers=2, direction=direction) for first in (False, True))
    state, lengths = state_of(one), [T, 0, 2]
    y, final = one(x_of(), state, lengths)
    turned, same = other(np.ascontiguousarray(x_of().swapaxes(0, 1)), state, lengths)
    assert equal(turned.swapaxes(0, 1), y)
    assert equal(final, same)
    assert turned.flags.c_contiguous


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_one_sequence_without_a_batch_axis(cell: str, batch_first: bool) -> None:
    net = layer_of(cell, batch_first, num_layers=2, direction="bidirectional")
    x, state = x_of(1), state_of(net, 1)
    y, final = net(x.swapaxes(0, 1) if batch_first else x, state, [4])
    alone, alone_final = net(x[:, 0], tuple(p[:, 0] for p in state) if isinstance(state, tuple) else state[:, 0], [4])
    assert equal(alone, y[0] if batch_first else y[:, 0])
    assert alone.shape == (T, 2 * H)
    assert equal(alone_final, tuple(part[:, 0] for part in parts(final)))


def views(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers in memory that is laid out in other ways."""
    wide = np.zeros((2 * T, N + 1, I), x.dtype)
    wide[::2, 1:] = x
    gaps = np.zeros((T, N, 2 * I), x.dtype)
    gaps[..., ::2] = x
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    record = np.zeros(x.shape, [("tag", "i1"), ("value", x.dtype)])["value"]
    record[...] = x
    return {
        "strided": wide[::2, 1:],
        "features apart": gaps[..., ::2],
        "backwards": np.ascontiguousarray(x[::-1])[::-1],
        "fortran": np.asfortranarray(x),
        "unaligned": odd,
        "inside records": record,
        "read-only": np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    }


@pytest.mark.parametrize("name", views(x_of()))
def test_any_memory_layout_is_accepted(name: str) -> None:
    net = layer_of(num_layers=2)
    h, c = state_of(net)
    other = np.asfortranarray(h), np.ascontiguousarray(c[:, ::-1])[:, ::-1]
    assert equal(net(views(x_of())[name], other)[0], net(x_of(), (h, c))[0])
    assert equal(net.step(views(x_of())[name][0])[0], net.step(x_of()[0])[0])
    still = np.broadcast_to(x_of()[:1], (T, N, I))
    assert equal(net(still)[0], net(still.copy())[0])


def test_no_state_is_zeros_and_inputs_are_left_alone() -> None:
    for cell in CELLS:
        net = layer_of(cell)
        state = state_of(net)
        zeros = tuple(np.zeros_like(part) for part in parts(state))
        assert equal(net(x_of())[0], net(x_of(), zeros if len(zeros) == 2 else zeros[0])[0])
        kept, x = tuple(part.copy() for part in parts(state)), x_of()
        _, final = net(x, state)
        assert equal(parts(state), kept)
        assert equal(x, x_of())
        assert equal(net(x, list(state) if isinstance(state, tuple) else state)[1], final)


def test_merge_none_gives_both_directions_apart() -> None:
    forward, backward = layer_of(direction="bidirectional", merge="none")(x_of())[0]
    whole = layer_of(direction="bidirectional")(x_of())[0]
    assert equal((forward, backward), (whole[..., :H], whole[..., H:]))


def test_forward_gives_three_and_training_is_refused() -> None:
    net = layer_of()
    y, state, tape = net.forward(x_of(), state_of(net), lengths=[1, 2, 3])
    assert equal((y, *state), (net(x_of(), state_of(net), [1, 2, 3])[0], *state))
    assert tape is None
    with pytest.raises(rb.ArgumentError, match="this version of the engine runs forward only"):
        net.forward(x_of(), training=True)


@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_batch(cell: str) -> None:
    for first in (False, True):
        net = layer_of(cell, first, num_layers=2, direction="bidirectional")
        x = np.zeros((0, T, I) if first else (T, 0, I), "f")
        for lengths in (None, [], np.zeros(0, np.int32)):
            y, state = net(x, lengths=lengths)
            assert y.shape == ((0, T, 2 * H) if first else (T, 0, 2 * H))
            assert all(part.shape == (4, 0, H) for part in parts(state))
        mask = np.zeros(x.shape[:2], bool)
        assert net(x, mask=mask)[0].shape == y.shape


def scattered(seed: int = 0) -> np.ndarray:
    """A mask with holes, one row of it empty and one full."""
    mask = np.random.default_rng(seed).random((T, 5)) < 0.5
    mask[:, 1], mask[:, 3] = False, True
    return mask


@pytest.mark.parametrize(
    "changes",
    [*({"direction": one} for one in DIRECTIONS), {"direction": "reverse", "output_order": "processing"}],
    ids=str,
)
@pytest.mark.parametrize("cell", CELLS)
def test_a_mask_runs_the_valid_steps_alone(cell: str, changes: dict[str, Any]) -> None:
    net, x, mask = layer_of(cell, **changes), x_of(5), scattered()
    state = state_of(net, 5)
    x[~mask] = np.nan
    y, final = net(x, state, mask=mask)
    natural = y[::-1] if net.spec.output_order == "processing" else y
    assert (natural[~mask] == 0).all()
    for n in np.flatnonzero(mask.any(axis=0)):
        mine = tuple(part[:, n] for part in parts(state))
        alone, ends = net(x[mask[:, n], n], mine if len(mine) == 2 else mine[0])
        assert equal(natural[mask[:, n], n], alone[::-1] if natural is not y else alone)
        assert equal(tuple(part[:, n] for part in parts(final)), ends)
    assert equal(tuple(part[:, 1] for part in parts(final)), tuple(part[:, 1] for part in parts(state)))


def test_a_mask_in_batch_first_order_and_of_one_sequence() -> None:
    one, other, mask = layer_of(), layer_of(batch_first=True), scattered()
    y, state = one(x_of(5), mask=mask)
    turned, same = other(x_of(5).swapaxes(0, 1), mask=mask.T)
    assert equal((turned.swapaxes(0, 1), *same), (y, *state))
    assert turned.flags.c_contiguous
    assert equal(one(x_of(5)[:, 0], mask=mask[:, 0])[0], y[:, 0])


def repeated(y: np.ndarray, mask: np.ndarray, backwards: bool) -> np.ndarray:
    """What Keras puts where no step is valid, one step at a time; y and the result in the order of the input."""
    result = np.zeros_like(y)
    for n in range(y.shape[1]):
        last = np.zeros_like(y[0, n])
        for t in reversed(range(T)) if backwards else range(T):
            last = y[t, n] if mask[t, n] else last
            result[t, n] = last
    return result


@pytest.mark.parametrize("order", ["input", "processing"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_padding_repeats_the_last_output(direction: str, order: str) -> None:
    if order == "processing" and direction == "forward":
        order = "input"
    nets = [layer_of("gru_after", first, direction=direction, output_order=order) for first in (False, True)]
    holes, lengths = scattered(), np.array([3, 0, T, 1, 5])
    for mask, given in ((holes, {"mask": holes}), (np.arange(T)[:, None] < lengths, {"lengths": lengths})):
        flip = slice(None, None, -1) if order == "processing" else slice(None)
        wanted = repeated(nets[0](x_of(5), **given)[0][flip], mask, direction == "reverse")[flip]
        assert equal(nets[0](x_of(5), padding="repeat", **given)[0], wanted)
        turned = {name: value.T if name == "mask" else value for name, value in given.items()}
        y = nets[1](x_of(5).swapaxes(0, 1), padding="repeat", **turned)[0]
        assert equal(y.swapaxes(0, 1), wanted)
    assert equal(nets[0](x_of(), padding="repeat")[0], nets[0](x_of())[0])


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


def test_weights_are_written_in_place_until_frozen() -> None:
    weights = weights_of(spec_of("lstm", hidden_size=H))
    net, x = rb.layer(weights), x_of()
    before = net(x)[0]
    net.weights["bias_hh_l0"][2] += 0.5
    after = net(x)[0]
    assert not equal(before, after)
    assert equal(rb.layer(weights)(x)[0], before)
    assert not net.frozen
    net.freeze()
    net.freeze()
    assert net.frozen
    assert equal(net(x)[0], after)
    with pytest.raises(ValueError, match="read-only"):
        net.weights["bias_hh_l0"][2] = 0
    with pytest.raises(TypeError):
        net.weights["bias_hh_l0"] = 0  # type: ignore[index]


def test_a_batch_first_source_warns_unless_the_order_is_said() -> None:
    spec = spec_of("lstm")
    weights = RNNWeights(spec, weights_of(spec).arrays, Origin(framework="keras", name="rnn_1", batch_first=True))
    with pytest.warns(UserWarning, match=r"'rnn_1' takes \[N, T, I\] in keras and \[T, N, I\] here"):
        net = rb.layer(weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "x [T, N, I]" in repr(net)
        assert "x [T, N, I]" in repr(rb.layer(weights, batch_first=False))
        assert "x [N, T, I]" in repr(rb.layer(weights, batch_first=True))
        rb.layer(weights_of(spec))


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
    "threads": ({"threads": 0}, "threads is 0"),
    "threads not a number": ({"threads": "all"}, "number of threads is 'all'"),
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
    with pytest.raises(rb.ArgumentError, match="at least 1"):
        layer_of().stream(0)
    with pytest.raises(rb.ArgumentError, match=r"x_t is float32 \[2, 5\]; it is float32 \[N, I\] = \[3, 5\]"):
        layer_of().stream(N)(x_of()[0, :2])
    with pytest.raises(rb.ArgumentError, match="x_t is a list"):
        layer_of().stream(N)(x_of()[0].tolist())
    with pytest.raises(rb.ArgumentError, match="state h is"):
        layer_of("gru_after").stream(N).reset(np.zeros((1, 2, H), "f"))
    with pytest.raises(rb.ArgumentError, match="given a dict; it takes RNNWeights"):
        rb.layer({})  # type: ignore[arg-type]
