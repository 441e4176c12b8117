"""Gradients and training against the frameworks: PyTorch for what it has, TensorFlow for GRU reset before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from tests.gradients import Arrays, Problem, by_name, judge, outputs_by_name, same_bits
from tests.samples import BIASES, spec_of

IN_PYTORCH = ("lstm", "gru_after", "rnn_tanh", "rnn_relu")
STEPS, RATE = 20, 0.05


def cells_and_shapes() -> Iterator[tuple[str, Problem]]:
    shapes = product(IN_PYTORCH, (1, 3), ("forward", "bidirectional"), ("none", "double"), ("none", "mixed"))
    dtypes = cycle(("float32", "float64", "float32"))
    for (cell, layers, direction, bias, lengths), dtype in zip(shapes, dtypes, strict=False):
        spec = spec_of(cell, hidden_size=17, num_layers=layers, direction=direction, bias=bias)
        yield f"{cell}-{layers}-{direction}-{bias}-{lengths}-{dtype}", Problem(spec, 11, 5, dtype, lengths)


def torch_gradients(problem: Problem) -> tuple[Arrays, Arrays]:
    """The outputs and all gradients by the oracle's names, from PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = rb.to_framework(problem.weights, "pytorch", batch_first=False)
    given = {name: torch.tensor(array) for name, array in problem.given.items()}
    for name in given.keys() & {"x", "h0", "c0"}:
        given[name].requires_grad_()
    x, steps = given["x"], problem.steps()
    if steps is not None:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(steps), enforce_sorted=False)
    y, state = module(x, (given["h0"], given["c0"]) if "c0" in given else given["h0"])
    if steps is not None:
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=problem.T)
    finals = state if "c0" in given else (state,)
    loss = (y * given["dy"]).sum() + sum((a * given[d]).sum() for a, d in zip(finals, ("dhn", "dcn"), strict=False))
    loss.backward()
    grads = {name: given[name].grad.numpy() for name in ("x", "h0", "c0") if name in given}
    grads |= {name: parameter.grad.numpy() for name, parameter in module.named_parameters()}
    outputs = {"y": y, **dict(zip("hc", finals, strict=False))}
    return {name: array.detach().numpy() for name, array in outputs.items()}, grads


PROBLEMS = dict(cells_and_shapes())


@pytest.mark.parametrize("name", PROBLEMS)
def test_pytorchs_autograd_gives_the_same_gradients(name: str) -> None:
    problem = PROBLEMS[name]
    outputs, theirs = torch_gradients(problem)
    net = problem.layer()
    y, state, tape = problem.forward(net)
    ours = by_name(problem.backward(net, tape))
    exact, rough = problem.exact_results(), problem.exact_results(np.float32)
    judge(outputs | theirs, exact, rough, problem.dtype)
    judge(outputs_by_name(y, state) | ours, exact, rough, problem.dtype)


def test_pytorchs_tensors_and_packed_sequences_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    spec = spec_of("lstm", hidden_size=17, num_layers=2, direction="bidirectional")
    problem = Problem(spec, 11, 5, lengths="mixed")
    net, tensors = problem.layer(), {name: torch.tensor(array) for name, array in problem.given.items()}
    y, state, tape = problem.forward(net)
    wanted = by_name(problem.backward(net, tape))
    initial, lengths = (tensors["h0"], tensors["c0"]), torch.tensor(problem.steps())
    same, _, tape = net.forward(tensors["x"], initial, lengths, training=True)
    assert np.array_equal(same, y)
    assert tape.arrays["x"].ctypes.data == tensors["x"].data_ptr()
    dstate = (tensors["dhn"], tensors["dcn"])
    assert same_bits(by_name(net.backward(tape, tensors["dy"], dstate)), wanted)

    packed = torch.nn.utils.rnn.pack_padded_sequence(tensors["x"], lengths, enforce_sorted=False)
    rows, final, tape = net.forward(packed, initial, training=True)
    again = torch.nn.utils.rnn.PackedSequence(torch.tensor(rows.data), *rows[1:])
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(again, total_length=problem.T)
    assert np.array_equal(padded.numpy(), y)
    assert all(np.array_equal(one, other) for one, other in zip(final, state, strict=True))
    dy = torch.nn.utils.rnn.pack_padded_sequence(tensors["dy"], lengths, enforce_sorted=False)
    grads = net.backward(tape, dy, dstate)
    assert same_bits(dict(grads.weights), {name: wanted[name] for name in net.weights})
    with pytest.raises(rb.ArgumentError, match="x is a Tensor that gives no NumPy array"):
        net(tensors["x"].requires_grad_())


@pytest.mark.parametrize(("bias", "lengths"), [("single", "none"), ("none", "mixed"), ("single", "mixed")])
def test_tensorflows_gradients_of_gru_reset_before(bias: str, lengths: str) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    problem = Problem(spec_of("gru_before", hidden_size=17, bias=bias), 7, 3, lengths=lengths)
    layer = rb.to_framework(problem.weights, "keras")
    layer.return_sequences = layer.return_state = True
    given = {name: tf.constant(array) for name, array in problem.given.items()}
    steps = problem.steps()
    mask = None if steps is None else tf.constant(np.arange(7) < steps[:, None])
    with tf.GradientTape() as record:
        record.watch([given["x"], given["h0"]])
        y, h = layer(tf.transpose(given["x"], (1, 0, 2)), initial_state=given["h0"][0], mask=mask)
        weight = 1.0 if mask is None else tf.cast(mask, tf.float32)[..., None]  # Keras repeats outputs past a length
        loss = tf.reduce_sum(tf.transpose(y * weight, (1, 0, 2)) * given["dy"]) + tf.reduce_sum(h * given["dhn"][0])
    variables = [variable.value for variable in layer.trainable_variables]
    dx, dh0, *dweights = record.gradient(loss, [given["x"], given["h0"], *variables])
    net = problem.layer()
    ours = by_name(problem.backward(net, problem.forward(net)[2]))
    moved = rb.to_framework(rb.RNNWeights(problem.spec, {name: ours[name] for name in net.weights}), "keras")
    exact, rough = problem.exact(), problem.exact(np.float32)
    judge(ours, exact, rough, "float32")
    states = {name: exact[name] for name in ("x", "h0")}
    judge({"x": dx.numpy(), "h0": dh0.numpy()}, states, rough, "float32")
    # Gradients go where their weights go: a converter that only moves numbers moves them as well.
    for theirs, array in zip(dweights, moved.get_weights(), strict=True):
        assert np.abs(theirs.numpy() - array).max() <= 64 * np.finfo("f").eps * np.abs(array).max()


class Momentum:
    """torch.optim.SGD(momentum=0.9), from its documentation."""

    def __init__(self) -> None:
        self.velocity: Arrays = {}

    def step(self, weights: Any, grads: Any) -> None:
        for name, grad in grads.items():
            self.velocity[name] = 0.9 * self.velocity[name] + grad if name in self.velocity else grad.copy()
            weights[name] -= weights[name].dtype.type(RATE / 10) * self.velocity[name]


class Adam:
    """Kingma and Ba 2015, algorithm 1, with PyTorch's defaults."""

    def __init__(self) -> None:
        self.t, self.first, self.second = 0, {}, {}

    def step(self, weights: Any, grads: Any) -> None:
        self.t += 1
        for name, grad in grads.items():
            self.first[name] = 0.9 * self.first.get(name, 0) + 0.1 * grad.astype(np.float64)
            self.second[name] = 0.999 * self.second.get(name, 0) + 0.001 * grad.astype(np.float64) ** 2
            mean, square = self.first[name] / (1 - 0.9**self.t), self.second[name] / (1 - 0.999**self.t)
            weights[name] -= (RATE * mean / (np.sqrt(square) + 1e-8)).astype(grad.dtype)


def losses_of_torch(problem: Problem, optimiser: str) -> list[float]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = rb.to_framework(problem.weights, "pytorch", batch_first=False)
    make = {
        "momentum": lambda p: torch.optim.SGD(p, lr=RATE / 10, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=RATE),
    }[optimiser]
    update, x, aim = make(module.parameters()), torch.tensor(problem.given["x"]), torch.tensor(problem.given["dy"])
    losses = []
    for _ in range(STEPS):
        update.zero_grad()
        loss = ((module(x)[0] - aim) ** 2).mean(dim=(0, 1)).sum()
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses


def losses_of_ours(problem: Problem, optimiser: str) -> list[float]:
    net, aim = problem.layer(), problem.given["dy"]
    update = {"momentum": Momentum, "adam": Adam}[optimiser]()
    losses = []
    for _ in range(STEPS):
        y, _, tape = net.forward(problem.given["x"], training=True)
        off = y - aim
        losses.append(float((off**2).mean(axis=(0, 1)).sum()))
        update.step(net.weights, net.backward(tape, 2 * off / (problem.T * problem.N), want="weights").weights)
    return losses


@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
@pytest.mark.parametrize("bias", BIASES[::2])
@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_twenty_steps_follow_pytorchs_losses(cell: str, bias: str, optimiser: str) -> None:
    spec = spec_of(cell, hidden_size=17, num_layers=2, direction="bidirectional", bias=bias)
    problem = Problem(spec, 11, 5, "float64")
    theirs, ours = losses_of_torch(problem, optimiser), losses_of_ours(problem, optimiser)
    assert ours[-1] < ours[0]
    # In float64 twenty steps amplify a rounding error by far less than a million.
    assert np.abs(np.subtract(ours, theirs)).max() <= 1e6 * np.finfo(np.float64).eps * max(theirs)
