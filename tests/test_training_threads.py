"""Training from several Python threads, after a fork, and on every instruction set that this machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from rnnbridge._native import build_info
from tests.gradients import Problem, by_name, same_bits
from tests.samples import CELLS, spec_of

WORKERS = 5


@pytest.mark.parametrize("cell", CELLS)
def test_threads_that_train_through_one_frozen_layer(cell: str) -> None:
    spec = spec_of(cell, hidden_size=17, num_layers=2, direction="bidirectional")
    problems = [Problem(spec, T, N, lengths="mixed", threads=2) for T, N in ((5, 1), (11, 3), (2, 7))]
    alone = [problem.layer() for problem in problems]
    weights = problems[0].weights.arrays
    for net in alone:
        for name, array in weights.items():
            net.weights[name][...] = array
    wanted = [by_name(one.backward(net, one.forward(net)[2])) for one, net in zip(problems, alone, strict=True)]
    shared, barrier = problems[0].layer(), Barrier(WORKERS)
    shared.freeze()

    def train(worker: int) -> bool:
        barrier.wait()
        picks = [(worker + turn) % len(problems) for turn in range(17)]
        tapes = [(pick, problems[pick].forward(shared)[2]) for pick in picks]
        return all(same_bits(by_name(problems[pick].backward(shared, tape)), wanted[pick]) for pick, tape in tapes)

    with ThreadPoolExecutor(WORKERS) as pool:
        assert all(pool.map(train, range(WORKERS)))


FORK = """
import os, sys
import numpy as np
import rnnbridge as rb

net = rb.LSTM(13, 37, 2, bidirectional=True, dropout=0.3, seed=3)
x = np.random.default_rng(7).standard_normal((23, 17, 13)).astype(np.float32)

def trained(tape, y):
    return net.backward(tape, y, threads=2).weights["weight_hh_l0"]

y, _, tape = net.forward(x, training=True, threads=2)       # the pool has its workers now
before = trained(tape, y)
child = os.fork()
if child == 0:
    net.dropout_offset = 0
    again, _, other = net.forward(x, training=True, threads=2)
    os._exit(0 if np.array_equal(trained(tape, y), before) and np.array_equal(trained(other, again), before) else 5)
assert np.array_equal(trained(tape, y), before)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_trains_and_reads_its_parents_tapes() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx2_wide", "avx512"])
def test_bits_and_activations_on_one_instruction_set(isa: str) -> None:
    usable = build_info()["isa"]["usable"]
    if isa not in usable:
        pytest.skip(f"{isa} cannot run here; usable are {', '.join(usable)}")
    environment = {**os.environ, "RNNBRIDGE_ISA": isa, "RNNBRIDGE_TRAINING_DRAWS": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_training.py"]
    command += ["-k", "activation or bits or repeated or infinity"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-4000:]


COLD = """
import os, sys, threading
sys.setswitchinterval(1e-6)
import numpy as np
import rnnbridge as rb

net, x = rb.GRU(3, 5, reset="after", seed=1), np.ones((7, 2, 3), np.float32)
thread = threading.Thread(target=net.forward, args=(x,))
thread.start()
child = os.fork()
if child == 0:
    net.forward(x)
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_inside_the_very_first_call_runs() -> None:
    """Whatever a first call imports would be locked in the child."""
    for _ in range(5):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COLD]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
