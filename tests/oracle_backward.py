"""The judge of gradients: one sequence, one direction, one step, one gate at a time, in float64, gates by name.

Written from the equations of tests/oracle.py and their derivatives, independently of the engine; slow and meant to be
read. It runs forward with everything kept, then walks the steps back. It is itself judged by finite differences of
tests/oracle.py. `s'`, `t'` are taken at the pre-activation; d[gate] is the gradient of that gate's pre-activation.

    LSTM        do = dh t(c')     dc += dh o t'(c')     di = dc g     df = dc c     dg = dc i     dc_before = dc f
    GRU         dz = dh (h - n)   dn = dh (1 - z)       dh_before = dh z + ...
      after     dr = d[n] (U_n h + b_hn)                what U_n and b_hn see of d[n] is r d[n]
      before    dr = (U_n^T d[n]) h                     dh_before += (U_n^T d[n]) r
"""

from __future__ import annotations

import math

import numpy as np

from tests.oracle import ROWS

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def sigmoid(v):
    return 1.0 / (1.0 + np.exp(-v))


def slope_of_clip(one, v):
    return np.where((one.alpha * v + one.beta > 0) & (one.alpha * v + one.beta < 1), one.alpha, 0.0)


# name -> the function and its derivative, both of the pre-activation. What cannot be trained is not here.
ACTIVATIONS = {
    "sigmoid": (lambda one, v: sigmoid(v), lambda one, v: sigmoid(v) * sigmoid(-v)),
    "tanh": (lambda one, v: np.tanh(v), lambda one, v: 1 / np.cosh(v) ** 2),
    "relu": (lambda one, v: np.maximum(v, 0), lambda one, v: np.where(v > 0, 1.0, 0.0)),
    "linear": (lambda one, v: v, lambda one, v: np.ones_like(v)),
    "hard_sigmoid": (lambda one, v: np.clip(one.alpha * v + one.beta, 0, 1), slope_of_clip),
    "affine": (lambda one, v: one.alpha * v + one.beta, lambda one, v: np.full_like(v, one.alpha)),
    "leaky_relu": (lambda one, v: np.where(v < 0, one.alpha * v, v), lambda one, v: np.where(v < 0, one.alpha, 1.0)),
    "thresholded_relu": (
        lambda one, v: np.where(v > one.alpha, v, 0.0),
        lambda one, v: np.where(v > one.alpha, 1.0, 0.0),
    ),
    "scaled_tanh": (
        lambda one, v: one.alpha * np.tanh(one.beta * v),
        lambda one, v: one.alpha * one.beta / np.cosh(one.beta * v) ** 2,
    ),
    "elu": (
        lambda one, v: np.where(v < 0, one.alpha * np.expm1(v), v),
        lambda one, v: np.where(v < 0, one.alpha * np.exp(v), 1.0),
    ),
    "selu": (
        lambda one, v: SELU_SCALE * np.where(v < 0, SELU_ALPHA * np.expm1(v), v),
        lambda one, v: SELU_SCALE * np.where(v < 0, SELU_ALPHA * np.exp(v), 1.0),
    ),
    "softsign": (lambda one, v: v / (1 + np.abs(v)), lambda one, v: 1 / (1 + np.abs(v)) ** 2),
    "softplus": (lambda one, v: np.log1p(np.exp(v)), lambda one, v: sigmoid(v)),
    "exponential": (lambda one, v: np.exp(v), lambda one, v: np.exp(v)),
}


def value(one, v):
    return ACTIVATIONS[one.name][0](one, v).astype(v.dtype)


def slope(one, v):
    return ACTIVATIONS[one.name][1](one, v).astype(v.dtype)


OUTPUTS = ("y", "h", "c")


def gradients(*given, **named):
    """What `results` gives, without the outputs."""
    return {name: array for name, array in results(*given, **named).items() if name not in OUTPUTS}


def results(spec, arrays, x, h0, c0=None, lengths=None, masks=None, dy=None, dhn=None, dcn=None, dtype=np.float64):
    """The outputs, and gradients of sum(y dy) + sum(h dhn) + sum(c dcn), where any of the three may be None.

    x [T, N, I], h0 and c0 [L*D, N, H], lengths [N] or None, masks as in tests.oracle.run, dy [T, N, .], dhn and dcn
    [L*D, N, H] -> "y", "h", "c" (LSTM only), and "x", "h0", "c0" (LSTM only) and every weight's name for the gradients,
    each in its own shape. In float32 it shows what plain arithmetic is off, for tolerances.
    """
    steps, batch = x.shape[0], x.shape[1]
    lengths = [steps] * batch if lengths is None else [int(n) for n in lengths]
    weights = {name: np.asarray(array, dtype) for name, array in arrays.items()}
    grads = {name: np.zeros_like(array) for name, array in weights.items()}
    dx, y = np.zeros(x.shape, dtype), np.zeros((steps, batch, spec.output_size), dtype)
    start = {"h": np.array(h0, dtype), "c": np.array(h0 if c0 is None else c0, dtype)}
    final = {key: np.zeros_like(start[key]) if d is None else np.array(d, dtype) for key, d in (("h", dhn), ("c", dcn))}
    last = {key: start[key].copy() for key in start}
    dy = np.zeros_like(y) if dy is None else np.asarray(dy, dtype)
    if spec.output_order == "processing":
        dy = dy[::-1]
    for n in range(batch):
        mask = [None] * spec.num_layers
        if masks is not None:
            mask[:-1] = [np.asarray(one, dtype)[: lengths[n], n] for one in masks]
        sequence, kept = np.asarray(x[: lengths[n], n], dtype), []
        for layer in range(spec.num_layers):
            runs = [run_direction(spec, weights, layer, direction, sequence, start, n)
                    for direction in range(spec.num_directions)]  # fmt: skip
            kept.append((sequence, runs))
            for direction, run in enumerate(runs):
                for t in in_order(spec, direction, len(run))[-1:]:
                    for key in last:
                        last[key][layer * spec.num_directions + direction, n] = run[t][f"{key}_new"]
            outputs = [np.array([saved["h_new"] for saved in run]).reshape(len(run), spec.hidden_size) for run in runs]
            sequence = merged(spec.merge, outputs)
            sequence = sequence if mask[layer] is None else sequence * mask[layer]
        y[: lengths[n], n] = sequence
        d_sequence = dy[: lengths[n], n]
        for layer in reversed(range(spec.num_layers)):
            d_sequence = d_sequence if mask[layer] is None else d_sequence * mask[layer]
            sequence, runs = kept[layer]
            outputs = [np.array([saved["h_new"] for saved in run]).reshape(len(run), spec.hidden_size) for run in runs]
            below = np.zeros(sequence.shape, dtype)
            for direction, (run, d_out) in enumerate(zip(runs, unmerged(spec.merge, outputs, d_sequence), strict=True)):
                below += walk_back(spec, weights, grads, layer, direction, sequence, run, d_out, final, n)
            d_sequence = below
        dx[: lengths[n], n] = d_sequence
    y = y[::-1] if spec.output_order == "processing" else y
    cells = {"c": last["c"], "c0": final["c"]} if spec.cell == "lstm" else {}
    return {"y": y, "h": last["h"], "x": dx, "h0": final["h"], **cells, **grads}


def in_order(spec, direction, count):
    """Step numbers in the order of processing."""
    backwards = spec.direction == "reverse" or direction == 1
    return list(range(count))[::-1] if backwards else list(range(count))


def gate_rows(spec, arrays, layer, direction):
    """Base name -> gate letter -> the rows of that gate; views, so that gradients can be added to them."""
    suffix = f"_l{layer}" + ("_reverse" if direction else "")
    size = spec.hidden_size
    return {
        name: {gate: arrays[name + suffix][k * size : (k + 1) * size] for k, gate in enumerate(ROWS[spec.cell])}
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        if name + suffix in arrays
    }


def run_direction(spec, weights, layer, direction, sequence, start, n):
    """Forward over one sequence: what every step computed, by step number."""
    rows, state = gate_rows(spec, weights, layer, direction), layer * spec.num_directions + direction
    h, c = start["h"][state, n], start["c"][state, n]
    run = [None] * len(sequence)
    for t in in_order(spec, direction, len(sequence)):
        run[t] = step(spec, rows, sequence[t], h, c)
        h, c = run[t]["h_new"], run[t]["c_new"]
    return run


def step(spec, rows, x, h, c):
    """One step of one cell, with everything that its derivative needs, by name."""
    zero = np.zeros(spec.hidden_size, x.dtype)

    def bias(name, gate):
        return rows[name][gate] if name in rows else zero

    a = {gate: rows["weight_ih"][gate] @ x + bias("bias_ih", gate) for gate in ROWS[spec.cell]}
    u = {gate: rows["weight_hh"][gate] @ h + bias("bias_hh", gate) for gate in ROWS[spec.cell]}
    f, *others = spec.activations
    saved = {"h": h, "c": c, "c_new": c}
    if spec.cell == "lstm":
        pre = {gate: a[gate] + u[gate] for gate in "ifgo"}
        gates = {gate: value(others[0] if gate == "g" else f, pre[gate]) for gate in "ifgo"}
        c_new = gates["f"] * c + gates["i"] * gates["g"]
        return {**saved, "pre": pre, **gates, "c_new": c_new, "h_new": gates["o"] * value(others[1], c_new)}
    if spec.cell == "gru":
        pre = {gate: a[gate] + u[gate] for gate in "rz"}
        r, z = value(f, pre["r"]), value(f, pre["z"])
        inner = r * u["n"] if spec.reset == "after" else rows["weight_hh"]["n"] @ (r * h) + bias("bias_hh", "n")
        pre["n"] = a["n"] + inner
        n = value(others[0], pre["n"])
        return {**saved, "pre": pre, "r": r, "z": z, "n": n, "u_n": u["n"], "h_new": (1 - z) * n + z * h}
    pre = {"n": a["n"] + u["n"]}
    return {**saved, "pre": pre, "h_new": value(f, pre["n"])}


def walk_back(spec, weights, grads, layer, direction, sequence, run, d_out, final, n):
    """Back over one sequence, adding to the weights' gradients; the final state's gradient becomes the initial one's.

    Returns the gradient of the layer's input [len, features] through this direction.
    """
    rows, into = gate_rows(spec, weights, layer, direction), gate_rows(spec, grads, layer, direction)
    state = layer * spec.num_directions + direction
    dh, dc = final["h"][state, n], final["c"][state, n]
    below = np.zeros_like(sequence)
    for t in reversed(in_order(spec, direction, len(sequence))):
        d_ih, d_hh, seen, dh, dc = step_back(spec, rows, run[t], dh + d_out[t], dc)
        for gate in ROWS[spec.cell]:
            into["weight_ih"][gate] += np.outer(d_ih[gate], sequence[t])
            into["weight_hh"][gate] += np.outer(d_hh[gate], seen[gate])
            if "bias_ih" in into:
                into["bias_ih"][gate] += d_ih[gate]
            if "bias_hh" in into:
                into["bias_hh"][gate] += d_hh[gate]
            below[t] += rows["weight_ih"][gate].T @ d_ih[gate]
    final["h"][state, n], final["c"][state, n] = dh, dc
    return below


def step_back(spec, rows, saved, dh, dc):
    """The derivative of `step`: the gradients of h' and c' in; for each gate what W x + b_ih gets, what U (.) + b_hh
    gets and the vector that U was multiplied by, then the gradients of h and c out."""
    pre, h = saved["pre"], saved["h"]
    f, *others = spec.activations
    u = rows["weight_hh"]
    if spec.cell == "lstm":
        do = dh * value(others[1], saved["c_new"])
        dc = dc + dh * saved["o"] * slope(others[1], saved["c_new"])
        raw = {"i": dc * saved["g"], "f": dc * saved["c"], "g": dc * saved["i"], "o": do}
        d = {gate: raw[gate] * slope(others[0] if gate == "g" else f, pre[gate]) for gate in "ifgo"}
        return d, d, dict.fromkeys("ifgo", h), sum(u[gate].T @ d[gate] for gate in "ifgo"), dc * saved["f"]
    if spec.cell == "gru":
        r, z = saved["r"], saved["z"]
        d = {"z": dh * (h - saved["n"]) * slope(f, pre["z"]), "n": dh * (1 - z) * slope(others[0], pre["n"])}
        if spec.reset == "after":
            d["r"] = d["n"] * saved["u_n"] * slope(f, pre["r"])
            d_hh = {**d, "n": r * d["n"]}
            dh = dh * z + sum(u[gate].T @ d_hh[gate] for gate in "rzn")
            return d, d_hh, dict.fromkeys("rzn", h), dh, dc
        through = u["n"].T @ d["n"]
        d["r"] = through * h * slope(f, pre["r"])
        dh = dh * z + through * r + u["r"].T @ d["r"] + u["z"].T @ d["z"]
        return d, d, {"r": h, "z": h, "n": r * h}, dh, dc
    d = {"n": dh * slope(f, pre["n"])}
    return d, d, {"n": h}, u["n"].T @ d["n"], dc


def merged(merge, parts):
    """Two directions' outputs [len, H] as one."""
    if len(parts) == 1 or merge in ("concat", "none"):
        return np.concatenate(parts, axis=-1)
    return {"sum": parts[0] + parts[-1], "ave": (parts[0] + parts[-1]) / 2, "mul": math.prod(parts)}[merge]


def unmerged(merge, parts, d):
    """The derivative of `merged`: the gradient of each part."""
    if len(parts) == 1:
        return [d]
    if merge in ("concat", "none"):
        return np.split(d, 2, axis=-1)
    return {"sum": [d, d], "ave": [d / 2, d / 2], "mul": [d * parts[1], d * parts[0]]}[merge]
