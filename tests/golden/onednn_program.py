"""Builds onednn_rnn.cpp against an installed oneDNN 3 and runs it. For write_onednn.py and the live tests.

Imports nothing of the project. The headers and the library are those of the packages onednn-cpu-gomp and
onednn-devel-cpu-gomp, which pip puts under a prefix.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("onednn_rnn.cpp")
CELLS = {"vanilla_rnn": 0, "relu": 1, "logistic": 2, "lstm": 3, "gru": 4, "lbr_gru": 5}
DIRECTIONS = ("forward", "reverse", "concat", "sum")


def is_installed(prefix=sys.prefix):
    return (Path(prefix) / "include" / "dnnl.hpp").is_file()


def build(folder, prefix=sys.prefix):
    """The program, compiled into a folder."""
    program = Path(folder) / "onednn_rnn"
    libraries = ["-L%s/lib" % prefix, "-ldnnl", "-Wl,-rpath,%s/lib" % prefix]
    command = ["g++", "-O1", "-std=c++17", str(SOURCE), "-I%s/include" % prefix, *libraries, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def run(program, cell, direction, arrays, x, states):
    """y [T, N, .] and the final states [L, D, N, .].

    `arrays` have the names of an archive, `weights_layer_ldigo` ...; x is [T, N, I], `states` are [L, D, N, .].
    """
    by_goi = "weights_layer_ldgoi" in arrays
    tag = "ldgoi" if by_goi else "ldigo"
    names = ["weights_layer_" + tag, "weights_iter_" + tag, "bias_ldgo", "weights_peephole_ldgo"]
    names.append("weights_projection_" + ("ldoi" if by_goi else "ldio"))
    steps, batch, inputs = x.shape
    layers, _, _, state = states[0].shape
    hidden = arrays["bias_ldgo"].shape[-1]
    projection = state if names[-1] in arrays else 0
    head = [CELLS[cell], DIRECTIONS.index(direction), by_goi, layers, steps, batch, inputs, hidden, projection]
    head.append(names[3] in arrays)
    given = [x, *states, *(arrays[name] for name in names if name in arrays)]
    content = np.array(head, "<i4").tobytes() + b"".join(np.ascontiguousarray(one, "<f4").tobytes() for one in given)
    answer = subprocess.run([str(program)], input=content, check=True, stdout=subprocess.PIPE).stdout
    width = state * (2 if direction == "concat" else 1)
    shapes = [(steps, batch, width), *(one.shape for one in states)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    parts = np.split(np.frombuffer(answer, "<f4"), np.cumsum(sizes))
    assert parts.pop().size == 0
    y, *finals = (part.reshape(shape) for part, shape in zip(parts, shapes))
    return y, finals
