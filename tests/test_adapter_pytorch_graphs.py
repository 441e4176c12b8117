"""The PyTorch adapter in graphs: torch.compile with the graph whole, torch.export, and what is refused there."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rnnbridge.adapters.pytorch.problem import Form, plan_of, sizes_of
from tests.adapter_modules import CELLS, adapter, ours, problem_of, run, torch
from tests.gradients import same_bits

LETTERS, H, T, N = 11, 17, 7, 3


class LanguageModel(torch.nn.Module):
    def __init__(self, kind: str, dropout: float = 0.0, **more: Any) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(LETTERS, 5)
        self.rnn = getattr(adapter, kind)(5, H, num_layers=2, dropout=dropout, **more)
        self.output = torch.nn.Linear(H, LETTERS)

    def forward(self, text: Any) -> Any:
        return self.output(self.rnn(self.embedding(text))[0])


def text_of(steps: int, batch: int) -> Any:
    return torch.randint(LETTERS, (steps, batch), generator=torch.Generator().manual_seed(steps))


def answers(function: Any, model: Any, text: Any) -> list[Any]:
    model.zero_grad()
    y = function(text)
    y.square().sum().backward()
    return [y.detach(), *(one.grad.clone() for one in model.parameters())]


def close(one: list[Any], other: list[Any]) -> bool:
    """Within what the matrices around our operator may be rounded otherwise."""
    room = 16 * T * N * torch.finfo(torch.float32).eps
    return all((a - b).abs().max() <= room * b.abs().max() for a, b in zip(one, other, strict=True))


@pytest.fixture(autouse=True)
def _compiled_anew() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("more", [{"kind": "LSTM"}, {"kind": "GRU", "reset": "before"}, {"kind": "RNN"}], ids=str)
def test_a_compiled_graph_stays_whole_for_other_sizes_too(more: dict[str, Any]) -> None:
    model = LanguageModel(**more)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for steps, batch in ((T, N), (T + 2, N + 2), (T + 4, N + 4)):
        text = text_of(steps, batch)
        assert close(answers(compiled, model, text), answers(model, model, text))


def test_a_compiled_graph_draws_dropout_from_pytorchs_seed() -> None:
    model = LanguageModel("LSTM", dropout=0.5)
    compiled, text, drawn = torch.compile(model, fullgraph=True, backend="aot_eager"), text_of(T, N), []
    for function in (model, compiled, compiled):
        torch.manual_seed(4)
        drawn.append(answers(function, model, text))
    assert close(drawn[1], drawn[0])
    assert all(torch.equal(one, two) for one, two in zip(drawn[1], drawn[2], strict=True))
    assert not torch.equal(compiled(text), compiled(text))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Inductor's own
def test_inductor_compiles_training_and_inference() -> None:
    model, text = LanguageModel("GRU"), text_of(T, N)
    compiled = torch.compile(model, fullgraph=True)
    assert close(answers(compiled, model, text), answers(model, model, text))
    with torch.inference_mode():
        assert close([compiled(text)], [model(text)])


def exported(model: Any) -> Any:
    steps, batch = torch.export.Dim("T", min=2, max=64), torch.export.Dim("N", min=2, max=64)
    return torch.export.export(model, (text_of(T, N),), dynamic_shapes=({0: steps, 1: batch},))


def test_an_exported_program_is_one_node_for_the_stack_and_survives_a_file() -> None:
    model, text = LanguageModel("LSTM", dropout=0.5).eval(), text_of(9, 5)
    program = exported(model)
    nodes = [node for node in program.graph.nodes if node.target is torch.ops.rnnbridge.rnn.default]
    assert len(nodes) == 1
    assert torch.equal(program.module()(text), model(text))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(text), model(text))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Inductor's own
def test_aot_inductor_is_refused() -> None:
    program = exported(LanguageModel("LSTM").eval())
    with pytest.raises(RuntimeError, match=r"AOTInductor compiles for C\+\+.*undo\(\)"):
        torch._inductor.aot_compile(program.module(), (text_of(T, N),))


@pytest.mark.parametrize("cell", CELLS)
def test_the_operator_is_what_its_schema_says(cell: str) -> None:
    problem = problem_of(cell, num_layers=2, direction="bidirectional")
    h0 = torch.tensor(problem.given["h0"], requires_grad=True)
    c0 = torch.tensor(problem.given["c0"]) if cell == "lstm" else None
    weights = [torch.tensor(array, requires_grad=True) for array in problem.weights.arrays.values()]
    form = (torch.tensor([3, 4]), 0.5, True, cell, 2, True, False)
    # The tape has bytes that mean nothing, so that two runs cannot be compared as test_aot_dispatch_* would.
    torch.library.opcheck(
        torch.ops.rnnbridge.rnn.default,
        (torch.tensor(problem.given["x"]), h0, c0, weights, torch.tensor([3, 0, 11, 5, 5]), *form),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_symbolic_tape_is_as_large_as_the_engines(cell: str, direction: str, dtype: str) -> None:
    for layers, T_, N_, size in ((1, 1, 1, 3), (2, 7, 3, 17), (3, 211, 13, 65)):
        problem = problem_of(cell, dtype=dtype, direction=direction, num_layers=layers, T=2, N=1, hidden_size=size)
        form = Form(cell, layers, direction == "bidirectional", False)
        x, weights = torch.empty(T_, N_, 5, dtype=getattr(torch, dtype)), list(ours(problem).parameters())
        assert sizes_of(x, weights, form).tape(x.itemsize) == plan_of(x, weights, form, True).tape_nbytes


def test_checkpointing_recomputes_the_same() -> None:
    problem = problem_of("lstm", num_layers=2)
    module = ours(problem, dropout=0.5)
    results = []
    for again in (False, True):
        torch.manual_seed(8)
        results.append(run(Checkpointed(module) if again else module, problem)[1])
        module.zero_grad(set_to_none=True)
    names = set(results[0])
    assert same_bits(results[0], {name.removeprefix("module."): one for name, one in results[1].items()})
    assert "weight_hh_l1" in names


class Checkpointed(torch.nn.Module):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any, state: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.module, x, state, use_reentrant=False)
