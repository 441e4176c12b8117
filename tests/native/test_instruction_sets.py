"""Every set of kernels that this machine can run, not only the one it would choose: each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rnnbridge._native import build_info

NEEDS_ASKING = ("avx2_wide", "avx512")
TESTS = ("tests/test_engine.py", "tests/native/test_elementary.py")
# The same cells, layers and directions as the whole of test_engine, at the sizes that reach every tile and tail.
SELECTION = "sizes or activation or bits or past_a_length or infinity or ulp or ends"
REPORT = "import json; from rnnbridge._native import build_info; print(json.dumps(build_info()['isa']))"


def python(isa: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RNNBRIDGE_ISA": isa}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx2_wide", "avx512"])
def test_the_engine_on_one_set(isa: str) -> None:
    usable = build_info()["isa"]["usable"]
    if isa not in usable:
        pytest.skip(f"{isa} cannot run here; usable are {', '.join(usable)}")
    report = python(isa, "-c", REPORT)
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["active"] == isa
    run = python(isa, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, "-k", SELECTION)
    assert run.returncode == 0, run.stdout[-4000:]


def test_a_set_that_is_not_there_is_refused_by_name() -> None:
    plan = python("sse9", "-c", "import rnnbridge as rb; rb.Plan(rb.RNN(5, 3, activation='tanh').spec, 7, 3)")
    assert plan.returncode == 1
    assert 'RNNBRIDGE_ISA is "sse9"; usable here are baseline' in plan.stderr


def test_no_set_is_left_out_and_none_that_needs_asking_is_chosen() -> None:
    sets = json.loads(python("", "-c", REPORT).stdout)
    assert sets["warnings"] == []
    assert sets["active"] in sets["usable"]
    assert sets["active"] not in NEEDS_ASKING
