"""Layers as their users call them: constructors, orders of sequences, memory layouts, states, weights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.weights import Origin, RNNWeights
from tests.running import H, I, N, T, equal, layer_of, parts, state_of, x_of
from tests.samples import CELLS, DIRECTIONS, spec_of, weights_of


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
    assert rb.RNN(11, 7).spec == rb.RNN(11, 7, activation="tanh").spec
    with pytest.raises(rb.SpecError, match="a GRU needs reset='after'"):
        rb.GRU(11, 7)
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpys_numbers_and_dtypes_are_accepted(dtype: str) -> None:
    plain = rb.LSTM(I, H, 2, seed=3, dropout=0.25, dtype=dtype)
    for kind in (getattr(np, dtype), np.dtype(dtype)):
        net = rb.LSTM(np.int64(I), np.int32(H), np.uint8(2), seed=np.int64(3), dropout=np.float32(0.25), dtype=kind)
        assert repr(net) == repr(plain)
        assert all(np.array_equal(array, plain.weights[name]) for name, array in net.weights.items())
        assert equal(net.stream(np.int64(N))(x_of(dtype=dtype)[0]), plain(x_of(dtype=dtype), threads=np.int8(1))[0][0])


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


def test_forward_gives_three() -> None:
    net = layer_of()
    y, state, tape = net.forward(x_of(), state_of(net), lengths=[1, 2, 3])
    assert equal((y, *state), (net(x_of(), state_of(net), [1, 2, 3])[0], *state))
    assert tape is None


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
