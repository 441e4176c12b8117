"""The judge of last resort: one sequence, one unit, one multiplication at a time, in float64, gates by name.

Written from the equations, independently of rnnbridge.reference and of the engine; slow and meant to be read. It takes
canonical arrays under PyTorch's names (gate order i f g o / r z n, z keeps h) and standard or named activations.

    LSTM        i, f, o = s(W x + b_ih + U h + b_hh)    g = t(...)    c' = f c + i g    h' = o t(c')
    GRU after   n = t(W_n x + b_in + r (U_n h + b_hn))                h' = (1 - z) n + z h
    GRU before  n = t(W_n x + b_in + U_n (r h) + b_hn)                h' = (1 - z) n + z h
    RNN         h' = t(W x + b_ih + U h + b_hh)
"""

from __future__ import annotations

import math

import numpy as np

ACTIVATIONS = {
    "sigmoid": lambda v: 1.0 / (1.0 + math.exp(-v)) if v >= 0 else math.exp(v) / (1.0 + math.exp(v)),
    "tanh": math.tanh,
    "relu": lambda v: v if v > 0 else 0.0,
    "linear": lambda v: v,
}
ROWS = {"lstm": ["i", "f", "g", "o"], "gru": ["r", "z", "n"], "rnn": ["n"]}


def run(spec, arrays, x, h0, c0=None, lengths=None, masks=None):
    """x [T, N, I], h0 and c0 [L*D, N, H], lengths [N] or None -> y [T, N, .], h, c (c None unless an LSTM).

    masks: for dropout, one array [T, N, .] per layer but the last, which its output is multiplied by.
    """
    steps, batch = x.shape[0], x.shape[1]
    lengths = [steps] * batch if lengths is None else [int(n) for n in lengths]
    h_final, c_final = np.array(h0, np.float64), np.array(h0 if c0 is None else c0, np.float64)
    columns = []
    for n in range(batch):
        sequence = [[float(v) for v in x[t, n]] for t in range(lengths[n])]
        for layer in range(spec.num_layers):
            outputs = []
            for direction in range(spec.num_directions):
                row = layer * spec.num_directions + direction
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                order = list(range(len(sequence)))
                if spec.direction == "reverse" or direction == 1:
                    order.reverse()
                h, c = list(h_final[row, n]), list(c_final[row, n])
                out = [None] * len(sequence)
                for t in order:
                    h, c = step(spec, arrays, suffix, sequence[t], h, c)
                    out[t] = h
                h_final[row, n], c_final[row, n] = h, c
                outputs.append(out)
            sequence = [joined(spec.merge, [out[t] for out in outputs]) for t in range(len(sequence))]
            if masks is not None and layer < spec.num_layers - 1:
                sequence = [
                    [v * float(m) for v, m in zip(sequence[t], masks[layer][t][n], strict=True)]
                    for t in range(len(sequence))
                ]
        columns.append(sequence)
    y = np.zeros((steps, batch, spec.output_size))
    for n, sequence in enumerate(columns):
        for t, features in enumerate(sequence):
            y[t, n] = features
    if spec.output_order == "processing":
        y = y[::-1]
    return y, h_final, c_final if spec.cell == "lstm" else None


def step(spec, arrays, suffix, x, h, c):
    """One step of one cell: lists of floats in, lists of floats out."""
    size = spec.hidden_size

    def weighted(matrix, gate, unit, vector):
        row = arrays[matrix + suffix][ROWS[spec.cell].index(gate) * size + unit]
        return sum(float(w) * v for w, v in zip(row, vector, strict=True))

    def bias(name, gate, unit):
        if name + suffix not in arrays:
            return 0.0
        return float(arrays[name + suffix][ROWS[spec.cell].index(gate) * size + unit])

    def preactivation(gate, unit):
        return (
            weighted("weight_ih", gate, unit, x)
            + bias("bias_ih", gate, unit)
            + weighted("weight_hh", gate, unit, h)
            + bias("bias_hh", gate, unit)
        )

    act = [activation(one) for one in spec.activations]
    units = range(size)
    if spec.cell == "lstm":
        i = [act[0](preactivation("i", j)) for j in units]
        f = [act[0](preactivation("f", j)) for j in units]
        g = [act[1](preactivation("g", j)) for j in units]
        o = [act[0](preactivation("o", j)) for j in units]
        new_c = [f[j] * c[j] + i[j] * g[j] for j in units]
        return [o[j] * act[2](new_c[j]) for j in units], new_c
    if spec.cell == "gru":
        r = [act[0](preactivation("r", j)) for j in units]
        z = [act[0](preactivation("z", j)) for j in units]
        if spec.reset == "after":
            inner = [r[j] * (weighted("weight_hh", "n", j, h) + bias("bias_hh", "n", j)) for j in units]
        else:
            reset_h = [r[j] * h[j] for j in units]
            inner = [weighted("weight_hh", "n", j, reset_h) + bias("bias_hh", "n", j) for j in units]
        n = [act[1](weighted("weight_ih", "n", j, x) + bias("bias_ih", "n", j) + inner[j]) for j in units]
        return [(1.0 - z[j]) * n[j] + z[j] * h[j] for j in units], c
    return [act[0](preactivation("n", j)) for j in units], c


def activation(one):
    """A function of one float."""
    if one.name == "hard_sigmoid":
        return lambda v: min(max(one.alpha * v + one.beta, 0.0), 1.0)
    return ACTIVATIONS[one.name]


def joined(merge, parts):
    """Two directions' features as one list."""
    if len(parts) == 1 or merge in ("concat", "none"):
        return [v for features in parts for v in features]
    pairs = list(zip(*parts, strict=True))
    return {
        "sum": [a + b for a, b in pairs],
        "mul": [a * b for a, b in pairs],
        "ave": [(a + b) / 2.0 for a, b in pairs],
    }[merge]
