"""Embedding, Linear, LastStep and models of them around recurrent layers, against PyTorch's autograd."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.layers import Gradients
from rnnbridge.layers.gradients import ALL
from rnnbridge.training import Embedding, LastStep, Linear, Module, Sequential, seeds
from tests.gradients import Arrays, judge, same_bits

N, T, TOKENS, E, H, C = 3, 7, 29, 5, 11, 13
LENGTHS = np.array([4, 7, 1])
RNG = np.random.default_rng(8)
X = RNG.integers(0, TOKENS, (N, T))
X[0, 1] = X[0, 0]  # a token that comes more than once
DY = {2: RNG.standard_normal((N, C)), 3: RNG.standard_normal((N, T, C))}


def model_of(last: bool = False, bidirectional: bool = False, dtype: str = "float32", dropout: float = 0) -> Sequential:
    """Embedding, LSTM of two layers, perhaps LastStep, Linear; the same numbers in both dtypes."""
    seed, width = seeds(4), H * (1 + bidirectional)
    options: dict[str, Any] = {"bidirectional": bidirectional, "dropout": dropout, "dtype": dtype, "batch_first": True}
    layers = [
        Embedding(TOKENS, E, seed=next(seed), dtype=dtype),
        rb.LSTM(E, H, 2, seed=next(seed), **options),
        *([LastStep(bidirectional=bidirectional)] if last else []),
        Linear(width, C, seed=next(seed), dtype=dtype),
    ]
    return Sequential(*layers)


def ours(model: Sequential, dy: np.ndarray) -> Arrays:
    y, _, tape = model.forward(X, lengths=LENGTHS, training=True)
    grads = model.backward(tape, dy.astype(y.dtype), want=("weights",))
    return {"y": y, **grads.weights}


def theirs(model: Sequential, dy: np.ndarray, last: bool, dtype: str) -> Arrays:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    w = {name: torch.tensor(a.astype("f").astype(dtype), requires_grad=True) for name, a in model.weights.items()}
    module = rb.to_framework(model[1].to_weights().astype(dtype), "pytorch", batch_first=True)
    features = torch.nn.functional.embedding(torch.tensor(X), w["0.weight"])
    packed = torch.nn.utils.rnn.pack_padded_sequence(features, torch.tensor(LENGTHS), True, enforce_sorted=False)
    y, (h, _) = module(packed)
    y = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=T)[0]
    if last:
        y = torch.cat(list(h[-module.bidirectional - 1 :]), dim=1)
    top = str(len(model) - 1)
    y = torch.nn.functional.linear(y, w[f"{top}.weight"], w[f"{top}.bias"])
    (y * torch.tensor(dy.astype(dtype))).sum().backward()
    grads = {name: array.grad for name, array in w.items() if array.grad is not None}
    grads |= {f"1.{name}": parameter.grad for name, parameter in module.named_parameters()}
    return {"y": y.detach().numpy(), **{name: gradient.numpy() for name, gradient in grads.items()}}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("last", [False, True], ids=["every step", "last step"])
def test_a_models_gradients_are_pytorchs(last: bool, bidirectional: bool, dtype: str) -> None:
    model, dy = model_of(last, bidirectional, dtype), DY[3 - last].astype("f")
    for name, array in model.weights.items():  # the same numbers in every dtype
        model.weights[name][...] = array.astype("f")
    got, exact, rough = ours(model, dy), *(theirs(model, dy, last, kind) for kind in ("float64", "float32"))
    assert list(got)[1:] == list(model.weights)
    judge(got, {name: exact[name] for name in got}, {name: rough[name] for name in got}, dtype)


def test_tokens_past_a_length_are_not_read() -> None:
    noisy = np.where(np.arange(T) < LENGTHS[:, None], X, -7)
    embedding = Embedding(TOKENS, E, seed=1)
    (y, _, tape), (other, _, noisy_tape) = (embedding.forward(x, None, LENGTHS, training=True) for x in (X, noisy))
    assert np.array_equal(y, other)
    assert not y[0, 4:].any()
    dy = RNG.standard_normal(y.shape).astype("f")
    gradients = [embedding.backward(one, dy).weights["weight"] for one in (tape, noisy_tape)]
    assert np.array_equal(*gradients)


def test_the_gradient_of_an_embedding_is_the_sum_over_a_tokens_places() -> None:
    embedding, dy = Embedding(TOKENS, E, seed=1), RNG.standard_normal((N, T, E)).astype("f")
    expected = np.zeros((TOKENS, E))
    np.add.at(expected, X, dy)
    _, _, tape = embedding.forward(X, training=True)
    got = embedding.backward(tape, dy).weights["weight"]
    assert np.abs(got - expected).max() <= N * T * np.finfo("f").eps * np.abs(expected).max()


def test_an_empty_sequence_ends_in_zeros_without_a_gradient() -> None:
    x = RNG.standard_normal((N, T, 2 * E)).astype("f")
    for layer in (LastStep(), LastStep(bidirectional=True)):
        y, _, tape = layer.forward(x, lengths=[0, 7, 2], training=True)
        dx = layer.backward(tape, np.ones_like(y)).x
        assert not y[0].any()
        assert not dx[0].any()
        assert dx.sum() == 2 * 2 * E


def test_states_are_handed_in_and_out_for_every_layer() -> None:
    model = model_of()
    whole, last = model(X)
    first, state = model(X[:, :3])
    second, end = model(X[:, 3:], state)
    assert state[0] is state[2] is None
    error = np.abs(np.concatenate([first, second], axis=1) - whole).max()  # BLAS may add in another order
    assert error <= 2 * H * np.finfo("f").eps * np.abs(whole).max()
    assert all(np.array_equal(*pair) for pair in zip(end[1], last[1], strict=True))


def test_gradients_of_x_and_of_the_state_are_given_where_asked_for() -> None:
    model = Sequential(rb.GRU(E, H, reset="after", seed=1, batch_first=True), Linear(H, C, seed=2))
    x = RNG.standard_normal((N, T, E)).astype("f")
    y, state, tape = model.forward(x, training=True)
    grads = model.backward(tape, np.ones_like(y), (np.ones_like(state[0]), None))
    assert grads.x.shape == x.shape
    assert grads.state[0].shape == state[0].shape
    alone = model.backward(tape, np.zeros_like(y), (np.ones_like(state[0]), None))
    expected = rb.GRU(E, H, reset="after", seed=1, batch_first=True)
    of_state = expected.backward(expected.forward(x, training=True)[2], dstate=np.ones_like(state[0]))
    assert np.array_equal(alone.x, of_state.x)
    assert np.array_equal(alone.state[0], of_state.state)
    only = model.backward(tape, np.ones_like(y), want=("1.bias",))
    assert (only.x, only.state, list(only.weights)) == (None, None, ["1.bias"])


def test_a_frozen_layer_has_no_gradients_and_those_below_have_the_same() -> None:
    model, frozen = model_of(), model_of()
    frozen[1].freeze()
    all_of_them, some = ours(model, DY[3]), ours(frozen, DY[3])
    assert set(all_of_them) - set(some) == {name for name in all_of_them if name.startswith("1.")}
    assert same_bits({name: all_of_them[name] for name in some}, some)


def test_models_nest_and_are_copied() -> None:
    inner = model_of()
    outer = Sequential(Sequential(inner[0], inner[1]), inner[2])
    assert np.array_equal(outer(X)[0], inner(X)[0])
    assert "0.1.weight_ih_l0" in outer.weights
    twin = copy.deepcopy(outer)
    twin.weights["1.bias"][...] += 1
    twin.weights["0.1.bias_ih_l0"][...] += 1
    assert np.array_equal(outer(X)[0], inner(X)[0])
    assert not np.array_equal(twin(X)[0], outer(X)[0])


class Scaled(Module):
    """tanh(x) times a number for each feature: a layer of one's own."""

    def __init__(self, size: int) -> None:
        super().__init__(scale=np.linspace(0.5, 2, size, dtype="f"))

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, training: bool = False) -> Any:
        y = np.tanh(x)
        return y * self.weights["scale"], None, y if training else None

    def backward(self, tape: Any, dy: np.ndarray, dstate: Any = None, *, want: Any = ALL) -> Gradients:
        dx = dy * self.weights["scale"] * (1 - tape**2)
        return Gradients(dx, weights={"scale": (dy * tape).sum(axis=(0, 1))})


def test_a_layer_of_ones_own_is_one_of_a_model() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    model, dy = Sequential(Linear(E, H, seed=1), Scaled(H)), RNG.standard_normal((N, T, H)).astype("f")
    x = RNG.standard_normal((N, T, E)).astype("f")
    _, _, tape = model.forward(x, training=True)
    grads = model.backward(tape, dy)

    def theirs(dtype: str) -> Arrays:
        given = {"x": x, **model.weights}
        w = {name: torch.tensor(array.astype(dtype), requires_grad=True) for name, array in given.items()}
        y = torch.tanh(torch.nn.functional.linear(w["x"], w["0.weight"], w["0.bias"])) * w["1.scale"]
        (y * torch.tensor(dy.astype(dtype))).sum().backward()
        return {name: array.grad.numpy() for name, array in w.items()}

    judge({"x": grads.x, **grads.weights}, theirs("float64"), theirs("float32"), "float32")


def test_weights_are_the_layers_own_and_cannot_be_replaced() -> None:
    model = model_of()
    model.weights["1.bias_hh_l1"][...] = 7
    assert (model[1].weights["bias_hh_l1"] == 7).all()
    with pytest.raises(TypeError, match="written to, not replaced"):
        model.weights["2.bias"] = np.zeros(C, "f")


def test_one_seed_gives_many_that_differ() -> None:
    one, other = seeds(3), seeds(3)
    first = [next(one) for _ in range(5)]
    assert first == [next(other) for _ in range(5)]
    assert len({*first, next(seeds(4))}) == 6


FLOATS = np.zeros((N, T, E), "f")
TWO = rb.GRU(E, H, reset="after", bidirectional=True, seed=1).to_weights()
SUMMED = rb.layer(rb.RNNWeights(dataclasses.replace(TWO.spec, merge="sum"), TWO.arrays), batch_first=True)


ONE = rb.LSTM(E, H, seed=1).to_weights()


def reverse(**changes: Any) -> Any:
    spec = dataclasses.replace(ONE.spec, direction="reverse", **changes)
    return rb.layer(rb.RNNWeights(spec, ONE.arrays), batch_first=True)


def over(recurrent: Any, last: LastStep) -> Sequential:
    return Sequential(Sequential(Linear(E, E), recurrent), last)


def gradients(model: Any, x: np.ndarray = X, want: Any = ALL) -> Gradients:
    y, _, tape = model.forward(x, training=True)
    return model.backward(tape, np.ones_like(y), want=want)


def test_what_is_frozen_stays_frozen_in_copies() -> None:
    model = model_of()
    model.layers[0].freeze()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for name, array in copied.weights.items():
            assert array.flags.writeable == (not name.startswith("0.")), name


def test_an_empty_batch_has_gradients_of_zeros() -> None:
    grads = gradients(Sequential(Linear(E, E), Linear(E, C)), FLOATS[:0])
    assert grads.x.shape == (0, T, E)
    assert not any(array.any() for array in grads.weights.values())


def test_the_last_step_of_two_directions_is_warned_of() -> None:
    net = rb.LSTM(E, H, bidirectional=True, batch_first=True)
    with pytest.warns(UserWarning, match=r"LastStep\(bidirectional=True\) takes each at its end"):
        over(net, LastStep())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        over(net, LastStep(bidirectional=True))
        over(rb.LSTM(E, H, batch_first=True), LastStep())


def test_the_last_step_of_a_reverse_direction_is_warned_of_unless_it_is_its_end() -> None:
    with pytest.warns(UserWarning, match="has seen one step at the last; its answer is its final state"):
        over(reverse(), LastStep())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Sequential(reverse(output_order="processing"), LastStep())
    y, state = model(FLOATS + 1, lengths=[T] * N)
    assert np.array_equal(y, state[0][0][0])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Sequential(), "takes one or more layers"),
        (lambda: Sequential(np.tanh), "a ufunc is no layer; layers are rb.LSTM"),
        (lambda: Sequential(rb.LSTM(E, H)), "give the layer batch_first=True"),
        (lambda: model_of()(X, (None, None)), "state is 3 entries, one for each layer"),
        (lambda: model_of()(FLOATS), "Embedding was given float32 [3, 7, 5]; it takes whole numbers [N, T]"),
        (lambda: model_of()(X + 29), "they are 0 to 28"),
        (lambda: model_of()(X, lengths=[1, 2]), "lengths is int64 [2]"),
        (lambda: model_of()(X, lengths=[1, 2, 8]), "lengths go from 1 to 8; they are 0 to T = 7"),
        (lambda: Linear(H, C)(FLOATS), "Linear was given float32 [3, 7, 5]; it takes float32 [N, ..., 11]"),
        (lambda: Linear(E, C)(FLOATS.astype(float)), "Linear was given float64"),
        (lambda: Linear(0, C), "inputs is 0"),
        (lambda: LastStep(bidirectional=True)(FLOATS), "it takes [N, T, F], F even"),
        (lambda: model_of().backward(None, DY[3]), "has no tape; it is what forward(..., training=True) returned"),
        (lambda: seeds(-1), "seed is -1"),
        (lambda: Sequential(LastStep(), rb.GRU(E, H, reset="after", batch_first=True))(FLOATS), "was given [3, 5]"),
        (lambda: Sequential(reverse(output_order="processing"))(FLOATS, lengths=[1, 2, T]), "(go_backwards), those"),
        (lambda: Sequential(rb.LSTM(E, H, batch_first=True))(FLOATS[0]), "it takes [N, T, 5] here"),
        (lambda: over(rb.LSTM(E, H, batch_first=True), LastStep(bidirectional=True)), "takes two directions side by"),
        (lambda: over(SUMMED, LastStep(bidirectional=True)), "takes two directions side by side"),
        (lambda: gradients(model_of(), want=["1.weight_ih_10"]), "want has '1.weight_ih_10'; it is any of 'x'"),
        (lambda: gradients(Sequential(Linear(E, C)), FLOATS, want=["states"]), "want has 'states'"),
        (lambda: gradients(Linear(E, C), FLOATS, want=["wieght"]), "want has 'wieght'"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, said: str) -> None:
    with pytest.raises(rb.ArgumentError) as caught:
        call()
    assert said in str(caught.value)
