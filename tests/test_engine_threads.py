"""One frozen layer called from many threads, and the engine after a fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import rnnbridge as rb
from tests.samples import CELLS, inputs_of, spec_of, weights_of

WORKERS = 5


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_threads_hammering_one_frozen_layer(cell: str, threads: int) -> None:
    spec = spec_of(cell, hidden_size=17, num_layers=2, direction="bidirectional")
    net = rb.layer(weights_of(spec))
    net.freeze()
    problems = [inputs_of(spec, batch, steps=steps, seed=batch).x for batch, steps in ((1, 5), (3, 11), (7, 2))]
    wanted = [net(x)[0] for x in problems]
    barrier = Barrier(WORKERS)

    def hammer(worker: int) -> bool:
        barrier.wait()
        picks = [(worker + turn) % len(problems) for turn in range(31)]
        return all(np.array_equal(net(problems[pick], threads=threads)[0], wanted[pick]) for pick in picks)

    with ThreadPoolExecutor(WORKERS) as pool:
        assert all(pool.map(hammer, range(WORKERS)))


def test_trim_while_others_run() -> None:
    spec = spec_of("gru_before", hidden_size=17)
    net, x = rb.layer(weights_of(spec)), inputs_of(spec, 3).x
    wanted = net(x)[0]
    with ThreadPoolExecutor(WORKERS) as pool:
        runs = [pool.submit(net, x) for _ in range(99)]
        for _ in range(99):
            rb.trim()
        assert all(np.array_equal(run.result()[0], wanted) for run in runs)


FORK = """
import os, sys
import numpy as np
import rnnbridge as rb

net = rb.GRU(13, 67, 2, reset="after", bidirectional=True, seed=3)
x = np.random.default_rng(7).standard_normal((23, 17, 13)).astype(np.float32)
rb.set_num_threads(2)
before = net(x)[0]                          # the pool has its workers now
child = os.fork()
if child == 0:
    same = np.array_equal(net(x)[0], before) and np.array_equal(net(x, threads=2)[0], before)
    os._exit(0 if same else 5)
assert np.array_equal(net(x)[0], before)    # and the parent keeps them
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_runs_with_threads_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


ENVIRONMENT = """
import rnnbridge as rb

def said(call):
    try:
        return call() and "fine"
    except rb.NativeError as error:
        return error

print(said(rb.get_num_threads))
print(said(lambda: rb.RNN(5, 3, activation="tanh")))
rb.set_num_threads(2)                       # what is said in the program holds
print(said(rb.get_num_threads), said(lambda: rb.RNN(5, 3, activation="tanh")))
rb.set_num_threads(0)
"""


def run_with(threads: str, *arguments: str) -> str:
    """What a process prints that has this in RNNBRIDGE_NUM_THREADS."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "RNNBRIDGE_NUM_THREADS": threads, "COLUMNS": "500"},
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", ["abc", "12abc", "0", "-1", "1025", "99999", "99999999999999999999", " 3", "2.0"])
def test_an_environment_that_is_no_number_of_threads_is_said(threads: str) -> None:
    problem = f'RNNBRIDGE_NUM_THREADS is "{threads}"; it is a whole number of 1 to 1024'
    counted, made, after = run_with(threads, "-c", ENVIRONMENT).splitlines()
    assert counted.startswith(problem)
    assert made.startswith(problem)
    assert after == "fine fine"


def test_the_environment_says_the_number_of_threads() -> None:
    for threads in ("1", "7", "1024"):
        assert run_with(threads, "-c", "import rnnbridge; print(rnnbridge.get_num_threads())") == f"{threads}\n"
    assert int(run_with("", "-c", "import rnnbridge; print(rnnbridge.get_num_threads())")) >= 1


def test_info_shows_an_environment_that_is_wrong() -> None:
    problem = 'RNNBRIDGE_NUM_THREADS is "abc"; it is a whole number'
    assert problem in run_with("abc", "-m", "rnnbridge", "info")
    assert problem in json.loads(run_with("abc", "-m", "rnnbridge", "info", "--json"))["problem"]
