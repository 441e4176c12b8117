"""Runs the matrix of tests/problems.py in a process of its own and leaves what came out for another one to judge.

python -m tests.running_matrix FILE.npz; RNNBRIDGE_ISA names the set of kernels, and the one that ran is printed.
"""

from __future__ import annotations

import sys

import numpy as np

from rnnbridge._native import build_info
from tests.problems import corners, drawn

if __name__ == "__main__":
    matrix = corners() | drawn()
    results = {f"{name}/{key}": array for name, one in matrix.items() for key, array in one.results().items()}
    np.savez(sys.argv[1], **results)
    print(build_info()["isa"]["active"])
