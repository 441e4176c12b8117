"""The PyTorch adapter's modules: what they compute, by the oracle and by PyTorch; how they are an nn.Module."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

from rnnbridge.engine import Plan
from tests.adapter_modules import CELLS, FORMS, IN_PYTORCH, adapter, ours, problem_of, run, states_of, theirs, torch
from tests.gradients import SEED, Problem, judge, same_bits


def cases() -> Iterator[Any]:
    shapes = product(CELLS, (1, 3), ("forward", "bidirectional"), ("none", "double"))
    forms, dtypes, batches = cycle(FORMS), cycle(("float32", "float64", "float32")), cycle((5, 1, 3, 5, 3))
    for (cell, L, direction, bias), form, dtype, N in zip(shapes, forms, dtypes, batches, strict=False):
        lengths = {"packed": "mixed", "lengths": "zeros"}.get(form, "none")
        changes = {"num_layers": L, "direction": direction, "bias": bias, "dtype": dtype, "lengths": lengths, "N": N}
        yield pytest.param(cell, form, changes, id=f"{cell}-{L}-{direction}-{bias}-{form}-{dtype}-{N}")


@pytest.mark.parametrize(("cell", "form", "changes"), list(cases()))
def test_outputs_and_gradients_are_the_oracles(cell: str, form: str, changes: dict[str, Any]) -> None:
    problem = problem_of(cell, **changes)
    outputs, grads = run(ours(problem, batch_first=form == "batch first"), problem, form)
    judge({**outputs, **grads}, problem.exact_results(), problem.exact_results(np.float32), problem.dtype)


@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_a_module_is_pytorchs_but_for_its_forward(cell: str) -> None:
    problem = problem_of(cell, num_layers=2, direction="bidirectional")
    mine, other = ours(problem), theirs(problem)
    assert isinstance(mine, type(other))
    assert list(mine.state_dict()) == list(other.state_dict())
    assert repr(mine) == repr(other)
    assert [[one.shape for one in layer] for layer in mine.all_weights] == [
        [one.shape for one in layer] for layer in other.all_weights
    ]
    mine.flatten_parameters()
    torch.manual_seed(2)
    other.reset_parameters()
    torch.manual_seed(2)
    mine.reset_parameters()
    assert all(torch.equal(one, two) for one, two in zip(mine.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_sequence_without_a_batch_is_a_batch_of_one(cell: str, batch_first: bool) -> None:
    problem = problem_of(cell, num_layers=2, N=1)
    module = ours(problem, batch_first=batch_first)
    x, axis = torch.tensor(problem.given["x"]).squeeze(1), 0 if batch_first else 1
    h0 = torch.tensor(problem.given["h0"])
    state = (h0, torch.tensor(problem.given["c0"])) if cell == "lstm" else h0
    y, final = module(x.unsqueeze(axis), state)
    alone, end = module(x, tuple(part[:, 0] for part in state) if cell == "lstm" else state[:, 0])
    assert torch.equal(alone, y.squeeze(axis))
    assert all(torch.equal(one, two.squeeze(1)) for one, two in zip(states_of(end), states_of(final), strict=True))


def test_an_empty_batch_gives_empty_outputs_and_zero_gradients() -> None:
    module = ours(problem_of("lstm"))
    y, (h, _) = module(torch.zeros(7, 0, 5))
    (y.sum() + h.sum()).backward()
    assert (y.shape, h.shape) == ((7, 0, 17), (1, 0, 17))
    assert all(not one.grad.any() for one in module.parameters())


def backward_spied(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    backward = Plan.backward

    def spy(self: Plan, x: Any, **memory: Any) -> None:
        calls.append(memory)
        backward(self, x, **memory)

    monkeypatch.setattr(Plan, "backward", spy)
    return calls


def test_only_gradients_that_are_asked_for_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = backward_spied(monkeypatch)
    problem = problem_of("lstm", num_layers=2)
    _, full = run(ours(problem), problem)
    assert set(calls[0]["dweights"]) == set(problem.weights.arrays)

    frozen = ours(problem).requires_grad_(False)
    frozen.weight_hh_l1.requires_grad_()
    y, (h, c) = frozen(torch.tensor(problem.given["x"]), tuple(torch.tensor(problem.given[n]) for n in ("h0", "c0")))
    given = {name: torch.tensor(array) for name, array in problem.given.items()}
    ((y * given["dy"]).sum() + (h * given["dhn"]).sum() + (c * given["dcn"]).sum()).backward()
    assert set(calls[1]["dweights"]) == {"weight_hh_l1"}
    assert not {"dx", "dh0", "dc0"} & set(calls[1])
    assert np.array_equal(frozen.weight_hh_l1.grad.numpy(), full["weight_hh_l1"])


def tapes_spied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    kept: list[bool] = []
    forward = Plan.forward

    def spy(self: Plan, x: Any, **memory: Any) -> None:
        kept.append(memory["tape"] is not None)
        forward(self, x, **memory)

    monkeypatch.setattr(Plan, "forward", spy)
    return kept


def test_a_tape_is_kept_only_for_gradients_or_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tapes_spied(monkeypatch)
    problem = problem_of("gru_after", num_layers=2)
    module, x = ours(problem, dropout=0.5), torch.tensor(problem.given["x"])
    with torch.no_grad():
        module(x)
        module.eval()(x)
    with torch.inference_mode():
        assert module(x)[0].is_inference()
    module(x)
    module.requires_grad_(False)(x)
    assert kept == [True, False, False, True, False]


def test_dropout_follows_pytorchs_seed() -> None:
    problem = problem_of("lstm", num_layers=3)
    module, x = ours(problem, dropout=0.3), torch.tensor(problem.given["x"])

    def drawn(seed: int) -> Any:
        torch.manual_seed(seed)
        return [module(x)[0], module(x)[0]]

    first, again, other = drawn(5), drawn(5), drawn(6)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    state = torch.get_rng_state()
    module.eval()(x)
    assert torch.equal(state, torch.get_rng_state()), "an evaluation draws nothing"


def test_dropout_is_the_engines_own() -> None:
    problem = problem_of("gru_before", num_layers=3, dropout=0.4)
    given = {name: torch.tensor(array) for name, array in problem.given.items()}
    x, h0 = given["x"].requires_grad_(), given["h0"].requires_grad_()
    weights = [torch.tensor(array).requires_grad_() for array in problem.weights.arrays.values()]
    seed = torch.tensor([SEED, 0])
    y, h, _, _ = torch.ops.rnnbridge.rnn(x, h0, None, weights, None, seed, 0.4, True, "gru_before", 3, False, False)
    ((y * given["dy"]).sum() + (h * given["dhn"]).sum()).backward()
    grads = dict(zip(("x", "h0", *problem.weights.arrays), (x, h0, *weights), strict=True))
    got = {name: tensor.grad.numpy() for name, tensor in grads.items()}
    judge(got, problem.exact(), problem.exact(np.float32), "float32")


def test_a_graph_is_walked_back_as_often_as_it_is_kept() -> None:
    problem = problem_of("lstm", num_layers=2, direction="bidirectional")
    module, x = ours(problem), torch.tensor(problem.given["x"])
    y, _ = module(x)
    once = torch.autograd.grad(y.sum(), list(module.parameters()), retain_graph=True)
    twice = torch.autograd.grad(y.sum(), list(module.parameters()))
    assert all(torch.equal(one, two) for one, two in zip(once, twice, strict=True))


def test_hooks_run() -> None:
    problem = problem_of("gru_after")
    module, seen = ours(problem), []
    module.register_forward_hook(lambda *_: seen.append("forward"))
    module.register_full_backward_hook(lambda *_: seen.append("backward"))
    module.weight_hh_l0.register_hook(lambda grad: grad * 0)
    module(torch.tensor(problem.given["x"], requires_grad=True))[0].sum().backward()
    assert seen == ["forward", "backward"]
    assert not module.weight_hh_l0.grad.any()
    assert module.weight_ih_l0.grad.all()


@pytest.mark.parametrize("cell", CELLS)
def test_copies_and_pickles_are_modules_of_their_own(cell: str) -> None:
    problem = problem_of(cell)
    module, x = ours(problem).eval(), torch.tensor(problem.given["x"])
    wanted = module(x)[0]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x)[0], wanted)
        with torch.no_grad():
            other.weight_hh_l0.add_(1)
        assert not torch.equal(other(x)[0], wanted)
    assert torch.equal(module(x)[0], wanted)


def test_parametrised_weights_learn() -> None:
    problem = problem_of("lstm", dtype="float64")
    grads = []
    for module in (ours(problem), theirs(problem)):
        torch.nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
        module(torch.tensor(problem.given["x"]))[0].square().sum().backward()
        grads.append({name: one.grad.numpy() for name, one in module.named_parameters()})
    mine, other = grads
    assert mine.keys() == other.keys()
    assert "parametrizations.weight_hh_l0.original0" in mine
    for name, grad in other.items():
        assert np.abs(mine[name] - grad).max() <= problem.T * 64 * np.finfo("d").eps * np.abs(grad).max()


def test_hooks_on_saved_tensors_may_give_back_another_memory() -> None:
    problem = problem_of("lstm")
    x = torch.tensor(problem.given["x"])

    def moved(tensor: Any) -> Any:
        room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)  # at no multiple of 64 bytes
        return room.copy_(tensor.detach())

    grads = []
    for pack in (moved, lambda tensor: tensor):
        module = ours(problem)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            module(x)[0].sum().backward()
        grads.append([one.grad for one in module.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(*grads, strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("frozen", [False, True])
def test_vmap_is_one_call_after_another(cell: str, frozen: bool) -> None:
    problem, torch_seed = problem_of(cell, num_layers=2), 0
    torch.manual_seed(torch_seed)
    x = torch.stack([torch.tensor(problem.given["x"]), torch.randn(problem.given["x"].shape)], dim=1)
    answers = []
    for form in ("vmap", "each"):
        module, given = ours(problem).requires_grad_(not frozen), x.clone().requires_grad_()
        if form == "vmap":
            y = torch.func.vmap(lambda x, of=module: of(x)[0], in_dims=1)(given)
        else:
            y = torch.stack([module(given[:, k])[0] for k in range(2)])
        y.square().sum().backward()
        answers.append([y, given.grad, *(one.grad for one in module.parameters() if not frozen)])
    assert all(torch.equal(one, two) for one, two in zip(*answers, strict=True))


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_finite_differences(cell: str) -> None:
    problem = problem_of(cell, dtype="float64", hidden_size=3, T=3, N=2, num_layers=2, direction="bidirectional")
    module = ours(problem)
    names = [name for name, _ in module.named_parameters()]
    state = [torch.tensor(problem.given[name], requires_grad=True) for name in ("h0", "c0") if name in problem.given]

    def function(x: Any, *tensors: Any) -> Any:
        initial = tensors[0] if len(state) == 1 else tensors[: len(state)]
        weights = dict(zip(names, tensors[len(state) :], strict=True))
        y, final = torch.func.functional_call(module, weights, (x, initial))
        return y, *states_of(final)

    x = torch.tensor(problem.given["x"], requires_grad=True)
    assert torch.autograd.gradcheck(function, (x, *state, *module.parameters()))


def test_bits_do_not_depend_on_pytorchs_threads_and_the_engine_takes_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    forward = Plan.forward
    monkeypatch.setattr(Plan, "forward", lambda self, x, **m: (asked.append(m["threads"]), forward(self, x, **m))[1])
    monkeypatch.setattr("rnnbridge.adapters.pytorch.problem.get_num_threads", lambda: 2)
    problem = problem_of("lstm")
    before, answers = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            answers.append(run(ours(problem), problem)[1])
    finally:
        torch.set_num_threads(before)
    assert asked == [1, None, 3]
    assert same_bits(answers[0], answers[1])
    assert same_bits(answers[0], answers[2])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("bias", "N"), [("double", 3), ("none", 1)])
def test_a_cell_steps_as_its_module_does(cell: str, bias: str, N: int) -> None:
    problem = problem_of(cell, bias=bias, N=N)
    stepper = cell_of(problem)
    x, h0 = torch.tensor(problem.given["x"], requires_grad=True), torch.tensor(problem.given["h0"], requires_grad=True)
    c0 = torch.tensor(problem.given["c0"], requires_grad=True) if cell == "lstm" else None
    state, outputs = h0[0] if c0 is None else (h0[0], c0[0]), []
    for step in x:
        state = stepper(step, state)
        outputs.append(states_of(state)[0])
    loss = (torch.stack(outputs) * torch.tensor(problem.given["dy"])).sum()
    for part, name in zip(states_of(state), ("dhn", "dcn"), strict=False):
        loss = loss + (part * torch.tensor(problem.given[name][0])).sum()
    loss.backward()
    grads = {"x": x, "h0": h0, **({} if c0 is None else {"c0": c0})}
    grads |= {f"{name}_l0": one for name, one in stepper.named_parameters()}
    got = {name: one.grad.numpy() for name, one in grads.items()}
    judge(got, problem.exact(), problem.exact(np.float32), problem.dtype)
    alone = stepper(x[0, 0], None)
    assert all(torch.equal(one, two[0]) for one, two in zip(states_of(alone), states_of(stepper(x[0])), strict=True))


def cell_of(problem: Problem) -> Any:
    spec = problem.spec
    more = {"nonlinearity": spec.activations[0].name} if spec.cell == "rnn" else {}
    more |= {"reset": spec.reset} if spec.cell == "gru" else {}
    name = f"{spec.cell.upper()}Cell"
    stepper = getattr(adapter, name)(spec.input_size, spec.hidden_size, bias=spec.bias == "double", **more)
    assert isinstance(stepper, getattr(torch.nn, name))
    arrays = {name.removesuffix("_l0"): torch.tensor(array) for name, array in problem.weights.arrays.items()}
    stepper.load_state_dict(arrays)
    return stepper


def test_a_single_number_written_where_pytorch_counts_no_version_is_seen() -> None:
    net, x = adapter.GRU(5, 33), torch.randn(7, 2, 5)
    with torch.no_grad():
        for at in (0, 7, 333, net.weight_hh_l0.numel() - 1):
            net(x)
            net.weight_hh_l0.data.view(-1)[at] += 0.5
            fresh = adapter.GRU(5, 33)
            fresh.load_state_dict(net.state_dict())
            assert torch.equal(net(x)[0], fresh(x)[0]), at
