"""Training as a C program sees it: the example learns, and several threads or callers, or a tape that is made again,
change no bit of any gradient."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rnnbridge._native.find import find_library

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "native" / "include"
CC = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


def run(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    if CC is None:
        pytest.skip("there is no C compiler")
    library, binary = find_library(), folder / source.stem
    link = (str(library), f"-Wl,-rpath,{library.parent}", "-lm", "-pthread")
    subprocess.run([CC, *STRICT, "-I", str(INCLUDE), str(source), "-o", str(binary), *link], check=True)
    return subprocess.run([binary], capture_output=True, text=True, timeout=300, check=False)


def test_the_example_learns(tmp_path: Path) -> None:
    result = run(ROOT / "examples" / "train.c", tmp_path)
    assert result.returncode == 0, result.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", result.stdout)]
    assert len(losses) == 7
    # What predicting the mean would leave is about the loss at the start.
    assert losses[-1] < losses[0] / 10


def test_threads_callers_and_recomputation_change_no_bit(tmp_path: Path) -> None:
    result = run(Path(__file__).with_name("training.c"), tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
