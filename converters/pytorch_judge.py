"""PyTorch as a judge: its own module, filled from a file's own tensors, runs the layer. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import JudgeTask
from rnnbridge.converters.pytorch_modules import module_for, torch_for
from rnnbridge.converters.pytorch_names import State, groups_of
from rnnbridge.converters.pytorch_rows import CELLS, MODULES
from rnnbridge.errors import Incompatible

Array = NDArray[Any]


def run_module(task: JudgeTask, tensors: Mapping[str, Any]) -> dict[str, Array]:
    """Run a layer of a state_dict.

    Args:
        task: its spec and origin say which module to make; its numbers are not used.
        tensors: name -> tensor, as the framework loaded them.

    Returns:
        y [T, N, .], zero past a length; h, and c for an LSTM.

    Raises:
        Incompatible: the layer is not in the file under that name.
    """
    torch = torch_for("running a PyTorch layer")
    groups = groups_of(State(tensors))
    row = next((row for row in MODULES + CELLS if row.name == task.weights.origin.convention), None)
    if task.layer not in groups or row is None:
        raise Incompatible("PyTorch cannot run this layer", [f"the file has no torch.nn layer {task.layer!r}"])
    group = groups[task.layer]
    module = module_for(row, task.weights.spec, False, task.weights.dtype)
    module.load_state_dict({own: tensors[full] for own, full in group.names.items()})
    with torch.no_grad():
        return (_run_cell if group.is_cell else _run_sequences)(torch, module.eval(), task)


def _run_sequences(torch: Any, module: Any, task: JudgeTask) -> dict[str, Array]:
    """All sequences at once, packed where there are lengths. PyTorch packs none of length 0: those are put in after."""
    steps, batch = task.x.shape[:2]
    lengths = np.full(batch, steps) if task.lengths is None else np.asarray(task.lengths)
    some = np.flatnonzero(lengths)
    y = np.zeros((steps, batch, task.weights.spec.output_size), task.weights.dtype)
    states = [np.array(state, task.weights.dtype) for state in _states(task)]
    if len(some):
        x = _tensor(torch, task.x[:, some], task)
        initial = [_tensor(torch, state[:, some], task) for state in states]
        given: Any = x
        if task.lengths is not None:
            given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.from_numpy(lengths[some]), enforce_sorted=False)
        output, final = module(given, _given(task, initial))
        if task.lengths is not None:
            output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=steps)
        y[:, some] = output.numpy()
        for state, new in zip(states, _taken(task, final), strict=True):
            state[:, some] = new.numpy()
    return {"y": y, **dict(zip("hc", states, strict=False))}


def _run_cell(torch: Any, module: Any, task: JudgeTask) -> dict[str, Array]:
    """Step by step; a sequence that is over keeps its state."""
    steps, batch = task.x.shape[:2]
    lengths = torch.from_numpy(np.full(batch, steps) if task.lengths is None else np.asarray(task.lengths))
    states = [_tensor(torch, state[0], task) for state in _states(task)]
    outputs = []
    for t, x in enumerate(_tensor(torch, task.x, task)):
        running = (lengths > t)[:, None]
        new = _taken(task, module(torch.where(running, x, 0), _given(task, states)))
        states = [torch.where(running, after, before) for after, before in zip(new, states, strict=True)]
        outputs.append(torch.where(running, states[0], 0))
    return {"y": torch.stack(outputs).numpy(), **{key: s[None].numpy() for key, s in zip("hc", states, strict=False)}}


def _states(task: JudgeTask) -> list[Array]:
    return [task.h0] if task.c0 is None else [task.h0, task.c0]


def _given(task: JudgeTask, states: list[Any]) -> Any:
    """States as the module takes them: h, or the pair (h, c)."""
    return states[0] if task.c0 is None else tuple(states)


def _taken(task: JudgeTask, states: Any) -> list[Any]:
    """The inverse of `_given`."""
    return [states] if task.c0 is None else list(states)


def _tensor(torch: Any, array: Array, task: JudgeTask) -> Any:
    return torch.from_numpy(np.array(array, task.weights.dtype, order="C"))
