"""What a case comes to in float64: outputs, and gradients by back-propagation through time, in NumPy.

Written from the equations, a batch at a time, so that no peer and not our engine judges. Knows the usual activations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge.bench.problem import Problem
from rnnbridge.spec import RNNSpec, suffix_of

Array = NDArray[Any]


def truth(problem: Problem, dtype: DTypeLike = np.float64) -> dict[str, Array]:
    """Everything that a peer may be asked for.

    Args:
        dtype: what to compute in. float32 shows what plain arithmetic is off.

    Returns:
        "y" [T, N, D*H], "h" [L*D, N, H], "c" for an LSTM, "dx" [T, N, I] and "d" + name of every weight: the gradients
        of sum(y * dy).
    """
    spec = problem.case.spec
    weights = {name: array.astype(dtype) for name, array in problem.weights.items()}
    layers: list[list[_Pass]] = []
    x = problem.x.astype(dtype)
    valid = _valid(problem).astype(dtype)
    for layer in range(spec.num_layers):
        runs = [_forward(spec, weights, layer, d, x, valid) for d in range(spec.num_directions)]
        layers.append(runs)
        x = np.concatenate([run.y for run in runs], axis=2)
    every = [run for runs in layers for run in runs]
    found = {"y": x, "h": np.stack([run.h for run in every])}
    if spec.has_cell_state:
        found["c"] = np.stack([run.c for run in every])
    dy = problem.dy.astype(dtype)
    for layer in reversed(range(spec.num_layers)):
        parts = np.split(dy, spec.num_directions, axis=2)
        dy = np.zeros_like(layers[layer][0].x)
        for direction, (run, part) in enumerate(zip(layers[layer], parts, strict=True)):
            gradients = _backward(spec, weights, layer, direction, run, part, valid)
            dy += gradients.pop("x")
            found |= {f"d{name}": array for name, array in gradients.items()}
    found["dx"] = dy
    return found


class _Pass(NamedTuple):
    """One direction of one layer: its input and output, [step][...] what each step saw and made, final states."""

    x: Array
    y: Array
    steps: list[_Step]
    h: Array
    c: Array


class _Step(NamedTuple):
    t: int
    h: Array
    c: Array
    gates: dict[str, Array]
    inner: Array  # U_n h + b_hn of GRU after, else r h of GRU before, else the new c


def _valid(problem: Problem) -> Array:
    """[T, N, 1]: 1 where a step counts."""
    T, N = problem.x.shape[:2]
    lengths = np.full(N, T) if problem.lengths is None else problem.lengths
    return (np.arange(T)[:, None] < lengths)[..., None]


def _sigmoid(v: Array) -> Array:
    return 0.5 * np.tanh(0.5 * v) + 0.5


def _forward(spec: RNNSpec, weights: dict[str, Array], layer: int, direction: int, x: Array, valid: Array) -> _Pass:
    suffix = suffix_of(layer, direction)
    W, U = weights["weight_ih" + suffix], weights["weight_hh" + suffix]
    b, b_h = weights["bias_ih" + suffix], weights["bias_hh" + suffix]
    T, N = x.shape[:2]
    from_x = x @ W.T + b
    h = c = np.zeros((N, spec.hidden_size), x.dtype)
    y, steps = np.zeros((T, N, spec.hidden_size), x.dtype), []
    for t in reversed(range(T)) if direction else range(T):
        made, new_h, new_c = _step(spec, from_x[t], U, b_h, h, c)
        steps.append(_Step(t, h, c, *made))
        h, c = h + valid[t] * (new_h - h), c + valid[t] * (new_c - c)
        y[t] = valid[t] * h
    return _Pass(x, y, steps, h, c)


def _step(
    spec: RNNSpec, a: Array, U: Array, b_h: Array, h: Array, c: Array
) -> tuple[tuple[dict[str, Array], Array], Array, Array]:
    """The gates and the inner value, the new h, the new c."""
    if spec.cell == "rnn":
        n = np.tanh(a + h @ U.T + b_h)
        return ({"n": n}, c), n, c
    if spec.cell == "lstm":
        pre = np.split(a + h @ U.T + b_h, 4, axis=1)
        gates = {k: np.tanh(v) if k == "g" else _sigmoid(v) for k, v in zip("ifgo", pre, strict=True)}
        new_c = gates["f"] * c + gates["i"] * gates["g"]
        return (gates, new_c), gates["o"] * np.tanh(new_c), new_c
    two = 2 * spec.hidden_size
    r, z = np.split(_sigmoid(a[:, :two] + h @ U[:two].T + b_h[:two]), 2, axis=1)
    if spec.reset == "after":
        inner = h @ U[two:].T + b_h[two:]
        n = np.tanh(a[:, two:] + r * inner)
    else:
        inner = r * h
        n = np.tanh(a[:, two:] + inner @ U[two:].T + b_h[two:])
    return ({"r": r, "z": z, "n": n}, inner), (1 - z) * n + z * h, c


def _backward(
    spec: RNNSpec, weights: dict[str, Array], layer: int, direction: int, run: _Pass, dy: Array, valid: Array
) -> dict[str, Array]:
    """Gradients of x and of the direction's weights."""
    suffix = suffix_of(layer, direction)
    W, U = weights["weight_ih" + suffix], weights["weight_hh" + suffix]
    T, N = run.x.shape[:2]
    from_x = np.zeros((T, N, len(W)), W.dtype)  # gradients of W x + b_ih
    dU, db_h = np.zeros_like(U), np.zeros_like(U[:, 0])
    dh = dc = np.zeros((N, spec.hidden_size), W.dtype)
    for step in reversed(run.steps):
        here = valid[step.t]
        passed_h, passed_c, da, recurrent = _step_back(spec, U, step, here * (dh + dy[step.t]), here * dc)
        dh, dc = (1 - here) * dh + passed_h, (1 - here) * dc + passed_c
        from_x[step.t] = da
        for rows, gradient, seen in recurrent:
            dU[rows] += gradient.T @ seen
            db_h[rows] += gradient.sum(axis=0)
    flat = from_x.reshape(T * N, -1)
    return {
        "x": from_x @ W,
        "weight_ih" + suffix: flat.T @ run.x.reshape(T * N, -1),
        "weight_hh" + suffix: dU,
        "bias_ih" + suffix: flat.sum(axis=0),
        "bias_hh" + suffix: db_h,
    }


_Recurrent = list[tuple[slice, Array, Array]]


def _step_back(spec: RNNSpec, U: Array, step: _Step, dh: Array, dc: Array) -> tuple[Array, Array, Array, _Recurrent]:
    """What goes to h and c of before, the gradient of W x + b_ih, and for rows of U: gradient and what U saw."""
    g, everything = step.gates, slice(None)
    if spec.cell == "rnn":
        da = dh * (1 - g["n"] ** 2)
        return da @ U, dc, da, [(everything, da, step.h)]
    if spec.cell == "lstm":
        tanh_c = np.tanh(step.inner)
        dc = dc + dh * g["o"] * (1 - tanh_c**2)
        slopes = {k: 1 - v**2 if k == "g" else v * (1 - v) for k, v in g.items()}
        reached = {"i": dc * g["g"], "f": dc * step.c, "g": dc * g["i"], "o": dh * tanh_c}
        da = np.concatenate([reached[k] * slopes[k] for k in "ifgo"], axis=1)
        return da @ U, dc * g["f"], da, [(everything, da, step.h)]
    two = 2 * spec.hidden_size
    r, z, n = g["r"], g["z"], g["n"]
    da_z = dh * (step.h - n) * z * (1 - z)
    da_n = dh * (1 - z) * (1 - n**2)
    if spec.reset == "after":
        through_n, seen, dr = da_n * r, step.h, da_n * step.inner
        to_h = through_n @ U[two:]
    else:
        through_n, seen = da_n, step.inner
        d_inner = da_n @ U[two:]
        to_h, dr = d_inner * r, d_inner * step.h
    da_rz = np.concatenate([dr * r * (1 - r), da_z], axis=1)
    to_h = to_h + da_rz @ U[:two] + dh * z
    recurrent = [(slice(two), da_rz, step.h), (slice(two, None), through_n, seen)]
    return to_h, dc, np.concatenate([da_rz, da_n], axis=1), recurrent
