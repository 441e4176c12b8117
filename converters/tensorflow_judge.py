"""TensorFlow as a judge: it loads a checkpoint itself, and its operators for whole cells run the variables.

BlockLSTM and GRUBlockCell are what TensorFlow 2 still has of TensorFlow 1's cells. What they cannot do it does not
judge: projections, other activations, plain RNNs, GRUs with the reset gate after the product, float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import JudgeTask
from rnnbridge.converters.tensorflow_facts import facts_beside
from rnnbridge.converters.tensorflow_names import Cell, groups_of
from rnnbridge.errors import Incompatible, MissingExtraError
from rnnbridge.spec import STANDARD_ACTIVATIONS, RNNSpec

Array = NDArray[Any]
_GRU = {"w_ru": "gates/kernel", "b_ru": "gates/bias", "w_c": "candidate/kernel", "b_c": "candidate/bias"}


def run_layer(task: JudgeTask) -> dict[str, Array]:
    """Run a layer of a checkpoint.

    Args:
        task: its spec and origin say which operator runs it; its numbers are not used.

    Returns:
        y [T, N, .], h, and c for an LSTM.

    Raises:
        Incompatible: a layer that no operator of TensorFlow 2 runs, or a file that is no checkpoint.
    """
    try:
        import tensorflow
    except ImportError as error:
        raise MissingExtraError("running a layer of TensorFlow", "tensorflow", "keras") from error
    spec = task.weights.spec
    if reasons := list(_obstacles(task, spec)):
        raise Incompatible("TensorFlow 2 cannot run this", reasons)
    reader = tensorflow.train.load_checkpoint(str(task.path).removesuffix(".index"))
    facts = facts_beside(task.path) or {}
    kinds = {scope: next(iter(said)).kind for scope, said in facts.items()}
    group = groups_of(sorted(reader.get_variable_to_shape_map()), kinds).get(task.layer)
    if group is None or group.opaque:
        raise Incompatible("TensorFlow 2 cannot run this", [f"no cells under the name {task.layer!r}"])
    lengths = np.full(task.x.shape[1], len(task.x)) if task.lengths is None else task.lengths
    states = [one.astype(np.float32) for one in (task.h0, task.c0) if one is not None]
    y, finals = task.x.astype(np.float32), np.empty_like(states)
    for layer in range(spec.num_layers):
        sides = []
        for direction in range(spec.num_directions):
            cell, place = group.cells[layer, direction], layer * spec.num_directions + direction
            held = {leaf: reader.get_tensor(full).astype(np.float32) for leaf, full in cell.names.items()}
            turned = direction == 1 or spec.direction == "reverse"
            begin = [state[place] for state in states]
            x = _reversed(y, lengths) if turned else y
            ran = _steps(tensorflow, x, begin, held, spec, _forget_bias(task, cell, facts))
            finals[:, place] = [_last(one, first, lengths) for one, first in zip(ran, begin, strict=True)]
            out = ran[0] * (np.arange(len(y))[:, None] < lengths)[..., None]
            sides.append(_reversed(out, lengths) if turned else out)
        y = np.concatenate(sides, axis=-1)
    return {"y": y, **dict(zip("hc", finals, strict=False))}


def _obstacles(task: JudgeTask, spec: RNNSpec) -> Iterator[str]:
    if task.path.suffix != ".index":
        yield "it is asked about checkpoints alone"
    if spec.cell == "rnn" or spec.reset == "after":
        yield "it has no operator for such a cell"
    elif spec.activations != STANDARD_ACTIVATIONS[spec.cell]:
        yield "its operators know tanh alone"
    if spec.proj_size:
        yield "its operators have no projection"
    if task.weights.dtype != np.float32:
        yield "its operators compute in float32"


def _forget_bias(task: JudgeTask, cell: Cell, facts: Mapping[str, Any]) -> float:
    said = task.settings.get("forget_bias", task.layer)
    known = [one.forget_bias for one in facts.get(cell.scope, ()) if one.forget_bias is not None]
    return float(said) if said is not None else known[0] if known else 0.0


def _steps(
    tensorflow: Any, x: Array, state: list[Array], held: Mapping[str, Array], spec: RNNSpec, forget_bias: float
) -> list[Array]:
    """h, and c for an LSTM, after every step: [T, N, H] each."""
    if spec.cell == "gru":
        return [_gru(tensorflow, x, state[0], held)]
    zeros = np.zeros(spec.hidden_size, np.float32)
    ran = tensorflow.raw_ops.BlockLSTM(
        seq_len_max=tensorflow.constant(len(x), tensorflow.int64), x=x, h_prev=state[0], cs_prev=state[1],
        w=held["kernel"], b=held["bias"], forget_bias=forget_bias, cell_clip=spec.cell_clip or -1.0,
        use_peephole=spec.peephole,
        **{f"wc{gate}": held.get(f"w_{gate}_diag", zeros) for gate in "ifo"},
    )  # fmt: skip
    return [np.asarray(ran.h), np.asarray(ran.cs)]


def _gru(tensorflow: Any, x: Array, h: Array, held: Mapping[str, Array]) -> Array:
    arrays = {name: held.get(name, held.get(leaf)) for name, leaf in _GRU.items()}
    steps = []
    for step in x:
        h = tensorflow.raw_ops.GRUBlockCell(x=step, h_prev=h, **arrays).h
        steps.append(np.asarray(h))
    return np.stack(steps)


def _reversed(x: Array, lengths: Array) -> Array:
    """Every sequence turned round within its length."""
    turned = x.copy()
    for batch, length in enumerate(lengths):
        turned[:length, batch] = x[:length, batch][::-1]
    return turned


def _last(steps: Array, first: Array, lengths: Array) -> Array:
    """The state at each sequence's last step; that at the start for an empty one."""
    return np.stack([steps[n - 1, batch] if n else first[batch] for batch, n in enumerate(lengths)])
