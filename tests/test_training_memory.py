"""Ten thousand training calls of changing shapes leave the process as large as it was after warm-up."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

CALLS = """
import sys
from pathlib import Path
import numpy as np
import rnnbridge as rb

rng = np.random.default_rng(3)
nets = [rb.LSTM(5, 17, 2, bidirectional=True, dropout=0.3, seed=1), rb.GRU(5, 13, 2, reset="before", seed=1)]
pages = Path("/proc/self/statm")

def calls(count):
    for _ in range(count):
        net = nets[rng.integers(2)]
        x = np.zeros((rng.integers(1, 24), rng.integers(1, 8), 5), np.float32)
        y, state, tape = net.forward(x, training=True, recompute=bool(rng.integers(2)))
        net.backward(tape, y, want="weights")
    return int(pages.read_text().split()[1]) * 4096

print(*[calls(2000) for _ in range(6)])
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say the resident size")
def test_the_resident_size_stays() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sizes = list(map(int, done.stdout.split()))
    # A kilobyte that leaks with every call is eight times this in every round. A step that the allocator takes once (2
    # MB were seen, and nothing in the 24,000 calls after it) is in one of them.
    assert min(after - before for before, after in pairwise(sizes)) <= 2**18, sizes
