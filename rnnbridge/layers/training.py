"""A training call of a layer and its backward: from the caller's arrays to the plan's and back. Knows no cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from rnnbridge.engine import Accumulate, Dropout, borrowed
from rnnbridge.engine.arguments import check_is, refuse
from rnnbridge.errors import ArgumentError
from rnnbridge.layers.arguments import read_state
from rnnbridge.layers.gradients import Gradients, check_apart, check_into, read_want, target
from rnnbridge.layers.tape import Tape

Array = NDArray[Any]


def run_forward(tape: Tape, hn: Array, cn: Array | None, dropout: Dropout, threads: int | None) -> None:
    """Fill a tape, the y that it was made over, and the final states."""
    packed, tape.generation = tape.parameters.trained()
    with borrowed(tape.plan.workspace_nbytes) as (workspace,):
        tape.plan.forward(
            **tape.arrays,
            lengths=tape.form.lengths,
            hn=hn,
            cn=cn,
            packed=packed,
            workspace=workspace,
            tape=tape.block,
            generation=tape.generation,
            dropout=dropout,
            threads=threads,
        )


def run_backward(
    tape: Tape,
    dy: Any,
    dstate: Any,
    *,
    want: Iterable[str] | str,
    into: Gradients | None,
    accumulate: bool,
    threads: int | None,
) -> Gradients:
    """What `Layer.backward` gives."""
    refuse(check_is("into", into, Gradients))
    if accumulate and into is None:
        raise ArgumentError("accumulate=True adds to the arrays of into=; give it the gradients to add to")
    plan, form, into = tape.plan, tape.form, into or Gradients()
    want_x, want_state, names = read_want(want, plan.spec.weight_shapes())
    check_into(into, plan.spec)
    dhn, dcn = read_state(dstate, plan.spec, plan.N, plan.dtype, form.batched, "gradient of the state")
    shapes = plan.spec.weight_shapes()
    weights = {name: target(name, into.weights.get(name), shapes[name], plan.dtype, accumulate) for name in names}
    dx = _target_of_x(tape, into.x, accumulate) if want_x else None
    states = _targets_of_states(tape, into.state, accumulate) if want_state else ()
    packed, generation = tape.parameters.trained()
    entered = form.enter_gradient(dy)
    if into.given():
        read = {**tape.arrays, "dy": entered, "dhn": dhn, "dcn": dcn, **tape.parameters.arrays}
        check_apart({**weights, "x": dx, **dict(zip(("state", "state c"), states, strict=False))}, read)
    with borrowed(plan.workspace_nbytes) as (workspace,):
        plan.backward(
            **tape.arrays,
            packed=packed,
            workspace=workspace,
            tape=tape.block,
            generation=generation,
            dy=entered,
            dhn=dhn,
            dcn=dcn,
            dx=dx,
            **{name: part.reshape(plan.state_shape) for name, part in zip(("dh0", "dc0"), states, strict=False)},
            dweights=weights,
            accumulate=Accumulate.WEIGHTS | Accumulate.INPUTS if accumulate else 0,
            threads=threads,
        )
    state = states if len(states) == 2 else next(iter(states), None)
    return Gradients(None if dx is None else _result_of_x(tape, dx, into.x, accumulate), state, weights)


def _target_of_x(tape: Tape, given: Any, accumulate: bool) -> Array:
    """Where the engine writes dx: through the caller's array where that can be, else to memory of its own."""
    size = tape.plan.spec.input_size
    if given is not None:
        plain = tape.form.read("into's x", given, size)
        if plain is not given or not plain.flags.writeable:
            raise ArgumentError("into's x is read-only, or its features are not contiguous")
        if tape.form.views:
            return tape.form.enter(plain)
    dx = tape.form.empty(size)
    if accumulate:
        dx[...] = 0
    return dx


def _result_of_x(tape: Tape, dx: Array, given: Any, accumulate: bool) -> Array:
    if given is None:
        return tape.form.leave_gradient(dx)
    result: Array = given
    if not tape.form.views:
        result[...] = tape.form.leave_gradient(dx) + (given if accumulate else 0)
    return result


def _targets_of_states(tape: Tape, given: Any, accumulate: bool) -> tuple[Array, ...]:
    plan = tape.plan
    shape = plan.state_shape if tape.form.batched else plan.state_shape[::2]
    names = ("dh0", "dc0") if plan.spec.has_cell_state else ("dh0",)
    parts = given if isinstance(given, tuple | list) else (given,) * (1 if given is not None else len(names))
    if len(parts) != len(names):
        raise ArgumentError(f"into's state has {len(parts)} array(s); it has {len(names)}")
    return tuple(target(name, part, shape, plan.dtype, accumulate) for name, part in zip(names, parts, strict=True))
