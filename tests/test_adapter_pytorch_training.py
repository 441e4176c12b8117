"""Training in PyTorch with its modules and with ours, alone and with two processes: the same losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.adapter_modules import IN_PYTORCH, ours, problem_of, theirs, torch

ROOT = Path(__file__).parent.parent
STEPS = 200


@pytest.fixture
def _one_thread() -> Any:
    """At these sizes PyTorch's threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def losses(module: Any, problem: Any) -> list[float]:
    x, aim = torch.tensor(problem.given["x"]), torch.tensor(problem.given["dy"])
    optimiser, found = torch.optim.Adam(module.parameters(), lr=1e-2), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = (module(x)[0] - aim).square().mean()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_two_hundred_steps_follow_pytorchs_losses(cell: str, dtype: str) -> None:
    problem = problem_of(cell, num_layers=2, direction="bidirectional", dtype=dtype, T=7, N=3)
    mine, other = losses(ours(problem), problem), losses(theirs(problem), problem)
    assert mine[-1] < 0.8 * mine[0]
    # How far PyTorch's own run drifts from weights that are one rounding away is how far ours may.
    nudged = theirs(problem)
    with torch.no_grad():
        for one in nudged.parameters():
            one.mul_(1 + torch.finfo(one.dtype).eps)
    drift = np.abs(np.subtract(losses(nudged, problem), other)).max()
    allowed = 16 * max(drift, np.finfo(dtype).eps * max(other))
    assert allowed < mine[0] / 100, "a tolerance that says nothing"
    assert np.abs(np.subtract(mine, other)).max() <= allowed


def run_example(path: Path, processes: int, dropout: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore"]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    example = ROOT / "examples" / "distributed_pytorch.py"
    options = ["--steps", "20", "--dtype", "float64", "--dropout", str(dropout), "--json", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(example), *options], env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(path.read_text())
    return result


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this PyTorch has no gloo to join processes with")
def test_two_processes_follow_one(tmp_path: Path) -> None:
    alone = run_example(tmp_path / "one.json", 1, dropout=0.0)
    both = run_example(tmp_path / "two.json", 2, dropout=0.0)
    assert (alone["world"], both["world"]) == (1, 2)
    # In float64 twenty steps amplify a rounding error by far less than a million.
    allowed = 1e6 * np.finfo(np.float64).eps * max(alone["losses"])
    assert np.abs(np.subtract(alone["losses"], both["losses"])).max() <= allowed
    assert not both["drops_apart"]
    assert run_example(tmp_path / "dropped.json", 2, dropout=0.5)["drops_apart"]
