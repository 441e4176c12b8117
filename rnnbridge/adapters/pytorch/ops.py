"""The operators rnnbridge::rnn and rnnbridge::rnn_backward: schemas, the engine's kernels, shapes, and autograd.

Whatever a graph is made with (autograd, torch.compile, torch.export) sees one node for a whole stack of layers.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from rnnbridge.adapters.pytorch.errors import UNDO, UnsupportedError, changes_said
from rnnbridge.adapters.pytorch.packing import packed_weights
from rnnbridge.adapters.pytorch.problem import Form, plan_of, sizes_of, threads
from rnnbridge.engine import Dropout, aligned_empty, borrowed, lent
from rnnbridge.engine.memory import is_aligned

_FORM = "str cell, int num_layers, bool bidirectional, bool batch_first"
_library = torch.library.Library("rnnbridge", "DEF")
_library.define(
    "rnn(Tensor x, Tensor? h0, Tensor? c0, Tensor[] weights, Tensor? lengths, Tensor? seed, float dropout, bool record,"
    f" {_FORM}) -> (Tensor, Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "rnn_backward(Tensor? dy, Tensor? dhn, Tensor? dcn, Tensor x, Tensor? h0, Tensor? c0, Tensor[] weights, Tensor y,"
    f" Tensor tape, bool[] wanted, {_FORM}) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)

rnn = torch.ops.rnnbridge.rnn.default
_rnn_backward = torch.ops.rnnbridge.rnn_backward.default


class _Lent:
    """Memory of `rnnbridge.engine.lent` as long as an array over it lives: a fresh tape's page faults cost more."""

    def __init__(self, nbytes: int) -> None:
        self.__array_interface__ = lent(self, nbytes).__array_interface__


def _run(
    x: Any, h0: Any, c0: Any, weights: list[Any], lengths: Any, seed: Any, dropout: float, record: bool, *form: Any
) -> tuple[Any, ...]:
    """y, hn, cn and the tape; cn and the tape are empty where there is none.

    Args:
        x: [T, N, I], or [N, T, I] in a batch-first form.
        h0, c0: [L*D, N, H]; None is zeros.
        weights: as PyTorch has them, in its order.
        lengths: int64 [N], 0..T.
        seed: int64 [2], dropout's seed and offset.
        record: keep what backward needs.
    """
    of = Form(*form)
    plan, sizes = plan_of(x, weights, of, record), sizes_of(x, weights, of)
    y, hn, cn = (x.new_empty(shape) for shape in (sizes.y, sizes.state, sizes.c))
    tape = np.asarray(_Lent(plan.tape_nbytes)) if record else None
    packed, generation = packed_weights(plan, weights)
    with borrowed(plan.workspace_nbytes) as (workspace,):
        plan.forward(
            _steps(x, of),
            y=_steps(y, of),
            h0=_array(h0),
            c0=_array(c0),
            hn=hn.numpy(),
            cn=cn.numpy() if of.cell == "lstm" else None,
            lengths=_array(lengths),
            packed=packed,
            workspace=workspace,
            tape=tape,
            generation=generation,
            dropout=_dropout(dropout, seed),
            threads=threads(),
        )
    return y, hn, cn, torch.empty(0, dtype=torch.uint8) if tape is None else torch.from_numpy(tape)


def _run_backward(
    dy: Any, dhn: Any, dcn: Any, x: Any, h0: Any, c0: Any, weights: Any, y: Any, tape: Any, wanted: Any, *form: Any
) -> list[Any]:
    """The wanted gradients of x, h0, c0 and the weights, in this order."""
    of = Form(*form)
    plan = plan_of(x, weights, of, True)
    grads = [like.new_empty(like.shape) for like in _wanted(x, h0, c0, weights, wanted)]
    names = [name for name, is_wanted in zip(_names(plan.spec.weight_shapes()), wanted, strict=True) if is_wanted]
    by_name = {name: grad.numpy() for name, grad in zip(names, grads, strict=True)}
    targets = {f"d{name}": by_name.pop(name) for name in ("x", "h0", "c0") if name in by_name}
    if of.batch_first and "dx" in targets:
        targets["dx"] = targets["dx"].swapaxes(0, 1)
    packed, generation = packed_weights(plan, weights)
    with borrowed(plan.workspace_nbytes) as (workspace,), changes_said():
        plan.backward(
            _steps(x, of),
            y=_steps(y, of),
            h0=_array(h0),
            c0=_array(c0),
            dy=None if dy is None else _steps(dy, of),
            dhn=_array(dhn),
            dcn=_array(dcn) if of.cell == "lstm" else None,
            dweights=by_name,
            packed=packed,
            workspace=workspace,
            tape=_aligned(tape),
            generation=generation,
            threads=threads(),
            **targets,
        )
    return grads


def _shapes(
    x: Any, h0: Any, c0: Any, weights: list[Any], lengths: Any, seed: Any, dropout: float, record: bool, *form: Any
) -> tuple[Any, ...]:
    _refuse_aot_inductor()
    sizes = sizes_of(x, weights, Form(*form))
    tape = x.new_empty((sizes.tape(x.dtype.itemsize) if record else 0,), dtype=torch.uint8)
    return *(x.new_empty(shape) for shape in (sizes.y, sizes.state, sizes.c)), tape


def _shapes_backward(
    dy: Any, dhn: Any, dcn: Any, x: Any, h0: Any, c0: Any, weights: Any, y: Any, tape: Any, wanted: Any, *form: Any
) -> list[Any]:
    return [like.new_empty(like.shape) for like in _wanted(x, h0, c0, weights, wanted)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    x, h0, c0, weights, _, _, _, record, *form = inputs
    if not record:
        raise UnsupportedError(
            "rnnbridge::rnn was run with record=False, so that it has no gradients; give record=True"
        )
    y, _, _, tape = output
    ctx.set_materialize_grads(False)
    ctx.form = form
    ctx.save_for_backward(x, h0, c0, y, tape, *weights)


def _gradients(ctx: Any, dy: Any, dhn: Any, dcn: Any, _: Any) -> tuple[Any, ...]:
    x, h0, c0, y, tape, *weights = ctx.saved_tensors
    of_x, of_h0, of_c0, of_weights = ctx.needs_input_grad[:4]
    wanted = [
        of_x,
        of_h0,
        of_c0,
        *(of_weights if isinstance(of_weights, list | tuple) else [of_weights] * len(weights)),
    ]
    grads = iter(_rnn_backward(dy, dhn, dcn, x, h0, c0, weights, y, tape, wanted, *ctx.form))
    dx, dh0, dc0, *dweights = (next(grads) if is_wanted else None for is_wanted in wanted)
    return dx, dh0, dc0, dweights, *[None] * 8


def _refuse_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(f"the engine computes no second derivatives (double backward). {UNDO.format(name='LSTM')}")


def _refuse_aot_inductor() -> None:
    """A library made by AOTInductor for C++ would need the operator in C++."""
    virtualized = sys.modules.get("torch._inductor.virtualized")
    if virtualized is not None and getattr(virtualized.V.graph, "aot_mode", False):
        raise UnsupportedError(f"AOTInductor compiles for C++, where the engine is not. {UNDO.format(name='LSTM')}")


def _wanted(x: Any, h0: Any, c0: Any, weights: list[Any], wanted: list[bool]) -> list[Any]:
    return [like for like, is_wanted in zip([x, h0, c0, *weights], wanted, strict=True) if is_wanted]


def _names(shapes: Any) -> list[str]:
    return ["x", "h0", "c0", *shapes]


def _array(tensor: Any) -> Any:
    """A contiguous array over the tensor's memory, or over a copy's."""
    return None if tensor is None else tensor.detach().contiguous().numpy()


def _aligned(tape: Any) -> Any:
    """The tape, or a copy where hooks on saved tensors gave back another memory."""
    array = tape.numpy()
    if is_aligned(array):
        return array
    copy = aligned_empty(array.nbytes)
    copy[...] = array
    return copy


def _one_by_one(operator: Any) -> Any:
    """A batching rule: the operator for each entry, the results side by side."""

    def rule(info: Any, in_dims: Any, *arguments: Any) -> tuple[Any, Any]:
        each = [operator(*_entry(k, in_dims, arguments)) for k in range(info.batch_size)]
        stacked = [torch.stack(results) for results in zip(*each, strict=True)]
        return (stacked, [0] * len(stacked)) if isinstance(each[0], list) else (tuple(stacked), (0,) * len(stacked))

    return rule


def _entry(k: int, in_dims: Any, arguments: Any) -> list[Any]:
    """Entry k of what has a batch axis; the rest as it is."""
    entries = []
    for dim, argument in zip(in_dims, arguments, strict=True):
        if isinstance(dim, tuple | list):
            entries.append(_entry(k, dim, argument))
        else:
            entries.append(argument if dim is None else argument.select(dim, k))
    return entries


def _steps(tensor: Any, form: Form) -> Any:
    """The array [T, N, .] of a sequence, in place if its features are contiguous."""
    plain = tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()
    array = plain.detach().numpy()
    return array.swapaxes(0, 1) if form.batch_first else array


def _dropout(p: float, seed: Any) -> Dropout | None:
    if seed is None:
        return None
    number, offset = seed.tolist()
    return Dropout(p=p, seed=number, offset=offset % 2**32)


_library.impl("rnn", _run, "CPU")
_library.impl("rnn_backward", _run_backward, "CPU")
torch.library.register_fake("rnnbridge::rnn", _shapes, lib=_library)
torch.library.register_fake("rnnbridge::rnn_backward", _shapes_backward, lib=_library)
torch.library.register_autograd("rnnbridge::rnn", _gradients, setup_context=_keep, lib=_library)
torch.library.register_autograd("rnnbridge::rnn_backward", _refuse_second, lib=_library)
torch.library.register_vmap("rnnbridge::rnn", _one_by_one(rnn), lib=_library)
torch.library.register_vmap("rnnbridge::rnn_backward", _one_by_one(_rnn_backward), lib=_library)
