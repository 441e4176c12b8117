"""Framework judges, each in a process of its own: what they said, or why they said nothing.

A framework may crash, hang, print or take every thread; none of that reaches the caller. Data cross as JSON and npz in
a temporary folder, never as pickles. `judge_main.py` is the other side.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Judge, catalogue
from rnnbridge.proof.samples import Sample
from rnnbridge.proof.tolerance import Outputs

Array = NDArray[Any]
_LAST_LINES = 4
# A GPU's reduced precision is not what is proven here, and start-up chatter is not what a user should read.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


@dataclass(frozen=True)
class Chain:
    """Layers of a file to be run one after the other, as a stack, on samples."""

    names: tuple[str, ...]
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Trial:
    """A file before one judge.

    Args:
        judge: who.
        path, format: the file.
        settings: what was set to read it.
        chains: what to run.
    """

    judge: Judge
    path: Path
    format: str
    settings: Mapping[str, str]
    chains: Sequence[Chain]


@dataclass
class Verdict:
    """What one judge gave.

    Args:
        version: of the framework, "" where it did not get as far as saying.
        outputs: (chain, sample) -> its outputs.
        refused: reasons why it could not run something.
        failure: the last lines of what it printed where it crashed or ran out of time, else "".
    """

    version: str = ""
    outputs: dict[tuple[int, int], Outputs] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    failure: str = ""


def judges_of(format_name: str) -> tuple[list[Judge], list[Judge]]:
    """The judges of a format that are installed, and those that are not."""
    known = catalogue().formats.get(format_name)
    judges = known.judges if known else ()
    here = [judge for judge in judges if importlib.util.find_spec(judge.module.partition(".")[0])]
    return here, [judge for judge in judges if judge not in here]


def run(trial: Trial, time_limit: float) -> Verdict:
    """Run a judge in a process of its own.

    Args:
        time_limit: seconds for everything, start-up included.
    """
    with tempfile.TemporaryDirectory(prefix="rnnbridge-judge-") as name:
        folder = Path(name)
        _write_task(folder, trial)
        failure = _run_process(folder, time_limit)
        verdict = _read_verdict(folder, trial)
        verdict.failure = failure
        return verdict


def _write_task(folder: Path, trial: Trial) -> None:
    arrays: dict[str, Array] = {}
    for number, chain in enumerate(trial.chains):
        for index, sample in enumerate(chain.samples):
            fields = {"x": sample.x, "h0": sample.h0, "c0": sample.c0, "lengths": sample.lengths}
            arrays |= {f"{number}.{index}.{key}": value for key, value in fields.items() if value is not None}
    with (folder / "samples.npz").open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    task = {
        "judge": trial.judge.name,
        "path": str(trial.path.absolute()),
        "format": trial.format,
        "settings": dict(trial.settings),
        "chains": [{"names": chain.names, "samples": len(chain.samples)} for chain in trial.chains],
    }
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")


def _run_process(folder: Path, time_limit: float) -> str:
    """Run the other side. Returns "" where it ended well, else why not."""
    # The folder is empty but for our files, so that nothing in the caller's shadows a framework's module.
    search_path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
    command = [sys.executable, "-m", "rnnbridge.proof.judge_main", "."]
    with (folder / "log.txt").open("w+b") as log:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": search_path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=time_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {time_limit:g} s{_tail(folder)}"
    return "" if done.returncode == 0 else f"ended with exit status {done.returncode}{_tail(folder)}"


def _tail(folder: Path) -> str:
    lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    last = [line.strip() for line in lines if line.strip()][-_LAST_LINES:]
    return "".join(f"\n  | {line}" for line in last)


def _read_verdict(folder: Path, trial: Trial) -> Verdict:
    verdict = Verdict()
    for number, chain in enumerate(trial.chains):
        said = folder / f"{number}.json"
        if not said.exists():
            continue
        record = json.loads(said.read_text(encoding="utf-8"))
        verdict.version = record["version"]
        verdict.refused += [f"{' + '.join(chain.names)}: {reason}" for reason in record["refused"]]
        with np.load(folder / f"{number}.npz", allow_pickle=False) as arrays:
            for key in arrays.files:
                index, _, output = key.partition(".")
                verdict.outputs.setdefault((number, int(index)), {})[output] = arrays[key]
    return verdict
