"""Modules of the PyTorch adapter over the weights of a `Problem`, and what they answer by the oracle's names."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its adapter goes untested")

from rnnbridge.adapters import pytorch as adapter  # noqa: E402 (after what is skipped without torch)
from tests.gradients import Arrays, Problem  # noqa: E402
from tests.samples import spec_of  # noqa: E402

CELLS = ("lstm", "gru_after", "gru_before", "rnn_tanh", "rnn_relu")
IN_PYTORCH = ("lstm", "gru_after", "rnn_tanh", "rnn_relu")
FORMS = ("time first", "batch first", "packed", "lengths")


def problem_of(cell: str, **changes: Any) -> Problem:
    """T = 11, N = 5, H = 17 unless changed."""
    of_problem = {name: changes.pop(name) for name in ("dtype", "lengths", "dropout", "T", "N") if name in changes}
    return Problem(spec_of(cell, **{"hidden_size": 17, **changes}), **{"T": 11, "N": 5, **of_problem})


def arguments_of(problem: Problem) -> tuple[str, dict[str, Any]]:
    """The class's name and what nn's constructor takes."""
    spec = problem.spec
    more = {"nonlinearity": spec.activations[0].name} if spec.cell == "rnn" else {}
    sizes = {"input_size": spec.input_size, "hidden_size": spec.hidden_size, "num_layers": spec.num_layers}
    flags = {"bidirectional": spec.num_directions == 2, "bias": spec.bias == "double"}
    return spec.cell.upper(), {**sizes, **flags, **more, "dtype": getattr(torch, problem.dtype)}


def ours(problem: Problem, **more: Any) -> Any:
    name, arguments = arguments_of(problem)
    arguments |= {"reset": problem.spec.reset} if name == "GRU" else {}
    return filled(getattr(adapter, name)(**arguments, **more), problem)


def theirs(problem: Problem, **more: Any) -> Any:
    name, arguments = arguments_of(problem)
    return filled(getattr(torch.nn, name)(**arguments, **more), problem)


def filled(module: Any, problem: Problem) -> Any:
    module.load_state_dict({name: torch.tensor(array) for name, array in problem.weights.arrays.items()})
    return module


def run(module: Any, problem: Problem, form: str = "time first") -> tuple[Arrays, Arrays]:
    """Outputs and gradients of the problem's scalar; "packed" and "lengths" use its lengths."""
    given = {name: torch.tensor(array) for name, array in problem.given.items()}
    leaves = {name: given[name].requires_grad_() for name in ("x", "h0", "c0") if name in given}
    state = (given["h0"], given["c0"]) if "c0" in given else given["h0"]
    y, final = call(module, given["x"], state, problem.steps(), form)
    finals = final if isinstance(final, tuple) else (final,)
    loss = (y * given["dy"]).sum()
    loss = loss + sum((part * given[name]).sum() for part, name in zip(finals, ("dhn", "dcn"), strict=False))
    loss.backward()
    outputs = {"y": y, **dict(zip("hc", finals, strict=False))}
    grads = {**leaves, **dict(module.named_parameters())}
    return (
        {name: array.detach().numpy() for name, array in outputs.items()},
        {name: tensor.grad.numpy() for name, tensor in grads.items()},
    )


def call(module: Any, x: Any, state: Any, steps: Any, form: str) -> tuple[Any, Any]:
    """y [T, N, .] and the final state, however the module wants its input."""
    rnn = torch.nn.utils.rnn
    if form == "packed":
        packed = rnn.pack_padded_sequence(x, torch.tensor(steps), enforce_sorted=False)
        y, final = module(packed, state)
        return rnn.pad_packed_sequence(y, total_length=len(x))[0], final
    if form == "batch first":
        y, final = module(x.transpose(0, 1), state)
        return y.transpose(0, 1), final
    return module(x, state, lengths=steps) if form == "lengths" else module(x, state)


def states_of(final: Any) -> tuple[Any, ...]:
    return final if isinstance(final, tuple) else (final,)
