"""How a process ends that trains: with status 0 and nothing on stderr, whoever is inside the engine at that moment, and
in every kind of child."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = """
import atexit, multiprocessing, os, sys, threading
import numpy as np
import rnnbridge as rb

net = rb.LSTM(13, 37, 2, bidirectional=True, seed=3)
net.freeze()
x = np.random.default_rng(7).standard_normal((23, 17, 13)).astype(np.float32)

def train(threads=2):
    y, _, tape = net.forward(x, training=True, threads=threads)
    return net.backward(tape, y, threads=threads).weights["weight_hh_l0"]

def fails(wanted):
    return 0 if np.array_equal(train(), wanted) else 5
"""
DAEMONS = """
inside = threading.Semaphore(0)

def work(threads):
    while True:
        inside.release()
        train(threads)

for threads in (1, 2, 3):
    threading.Thread(target=work, args=[threads], daemon=True).start()
for _ in range(7):
    inside.acquire()
"""
# Registered before the package is imported, so that it runs after whatever the package may have registered.
HANDLER = """
import atexit
atexit.register(lambda: train() is None or print("trained"))
"""
FORK = """
wanted = train()
child = os.fork()
if child == 0:
    sys.exit(fails(wanted))                 # with everything that an interpreter does at its end
train()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
PROCESSES = """
def child(wanted):
    sys.exit(fails(wanted))

if __name__ == "__main__":
    wanted = train()
    for method in multiprocessing.get_all_start_methods():
        process = multiprocessing.get_context(method).Process(target=child, args=[wanted])
        process.start()
        train()
        process.join()
        assert process.exitcode == 0, (method, process.exitcode)
"""
LOADER = """
import torch

class Trained(torch.utils.data.Dataset):
    def __len__(self):
        return 7
    def __getitem__(self, index):
        return train()

wanted = train()
for repeat in range(2):
    batches = torch.utils.data.DataLoader(Trained(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    for batch in batches:
        train()
        assert all(np.array_equal(one, wanted) for one in batch.numpy())
"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def ends_well(script: str, folder: Path) -> str:
    """What it printed."""
    path = folder / "script.py"
    path.write_text(script)
    # A Python from 3.12 on warns of any fork while there are threads, which is what is tested here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(path)]
    where = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": where}, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_daemons_may_be_inside_the_engine(tmp_path: Path) -> None:
    for _ in range(5):
        ends_well(SHARED + DAEMONS, tmp_path)


def test_a_handler_may_train_at_the_end(tmp_path: Path) -> None:
    assert ends_well(HANDLER + SHARED, tmp_path) == "trained\n"
    assert ends_well(HANDLER + SHARED + DAEMONS, tmp_path) == "trained\n"


@needs_fork
def test_a_forked_child_trains_and_ends(tmp_path: Path) -> None:
    ends_well(SHARED + FORK, tmp_path)
    ends_well(HANDLER + SHARED + FORK, tmp_path)
    ends_well(SHARED + DAEMONS + FORK, tmp_path)  # while others are inside the engine


def test_every_kind_of_child_process_trains_and_ends(tmp_path: Path) -> None:
    ends_well(SHARED + PROCESSES, tmp_path)


@needs_fork
def test_the_workers_of_a_data_loader_train(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ends_well(SHARED + LOADER, tmp_path)
