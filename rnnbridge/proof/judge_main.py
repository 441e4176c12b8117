"""What runs in a judge's process: `python -m rnnbridge.proof.judge_main FOLDER`.

Reads `task.json` and `samples.npz` there; leaves `<chain>.npz` and then `<chain>.json` for every chain that was run, so
that a crash at a later one loses nothing. `judges.py` is the other side.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bundle import format_named
from rnnbridge.catalogue import Judge, JudgeTask, Settings
from rnnbridge.errors import Incompatible
from rnnbridge.proof.tolerance import Outputs
from rnnbridge.weights import Bundle

Array = NDArray[Any]


def main(folder: Path) -> None:
    """Run every chain of the task in `folder`."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    chosen = format_named(task["format"])
    judge = next(one for one in chosen.judges if one.name == task["judge"])
    path, settings = Path(task["path"]), Settings(task["settings"])
    bundle = chosen.read(path, settings)
    with np.load(folder / "samples.npz", allow_pickle=False) as file:
        samples = dict(file)
    for number, chain in enumerate(task["chains"]):
        outputs: dict[str, Array] = {}
        refused: list[str] = []
        for index in range(chain["samples"]):
            sample = {key: samples.get(f"{number}.{index}.{key}") for key in ("x", "h0", "c0", "lengths")}
            try:
                got = run_chain(judge, bundle, path, settings, chain["names"], sample)
            except Incompatible as refusal:
                refused += [reason for reason in refusal.reasons or (str(refusal),) if reason not in refused]
                continue
            outputs |= {f"{index}.{name}": array for name, array in got.items()}
        _save(folder, number, outputs, {"version": version_of(judge), "refused": refused})


def run_chain(
    judge: Judge,
    bundle: Bundle,
    path: Path,
    settings: Settings,
    names: list[str],
    sample: Mapping[str, Array | None],
) -> Outputs:
    """Run layers one after the other as one stack: each reads the y of the one below and its share of the states."""
    dtype = bundle[names[0]].dtype
    x, h0, c0 = (None if sample[key] is None else np.asarray(sample[key], dtype) for key in ("x", "h0", "c0"))
    assert x is not None
    assert h0 is not None
    results: list[Outputs] = []
    first = 0
    for name in names:
        spec = bundle[name].spec
        share = slice(first, first + spec.num_layers * spec.num_directions)
        c_share = None if c0 is None else c0[share]
        task = JudgeTask(path, name, settings, bundle[name], x, h0[share], c_share, sample["lengths"])
        got = {key: np.asarray(array) for key, array in judge.run(task).items()}
        results.append(got)
        x, first = got["y"].astype(x.dtype), share.stop
    states = [key for key in results[-1] if key != "y"]
    return {"y": results[-1]["y"]} | {key: np.concatenate([one[key] for one in results]) for key in states}


def version_of(judge: Judge) -> str:
    """The version of the framework that ran."""
    module = importlib.import_module(judge.module)
    return str(getattr(module, "__version__", ""))


def _save(folder: Path, number: int, outputs: Outputs, record: dict[str, Any]) -> None:
    with (folder / f"{number}.npz").open("wb") as file:
        np.savez(file, **outputs)  # type: ignore[arg-type]
    (folder / f"{number}.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
