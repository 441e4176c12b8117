"""A container's limit is its control group's, which affinity does not show."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CXX = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
UNLIMITED = 2**31 - 1

# What /proc/self/cgroup says, the files under /sys/fs/cgroup, and the CPUs.
CASES: dict[str, tuple[str, dict[str, str], int]] = {
    "version 2": ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
    "a part of one": ("0::/\n", {"cpu.max": "5000 100000\n"}, 1),
    "whole": ("0::/\n", {"cpu.max": "300000 100000\n"}, 3),
    "no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, UNLIMITED),
    "no files": ("0::/\n", {}, UNLIMITED),
    "the parent's": ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2),
    "the least": ("0::/a/b\n", {"a/cpu.max": "700000 100000", "a/b/cpu.max": "400000 100000"}, 4),
    "the host's path": ("0::/docker/1f2e\n", {"cpu.max": "400000 100000"}, 4),
    "version 1": (
        "5:memory:/\n3:cpu,cpuacct:/job\n",
        {"cpu/job/cpu.cfs_quota_us": "250000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
        3,
    ),
    "version 1 without": (
        "1:cpu:/\n0::/\n",
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
        UNLIMITED,
    ),
    "another controller": (
        "2:cpuacct,cpuset:/\n",
        {"cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "1"},
        UNLIMITED,
    ),
    "nonsense": ("0:\n::\nx\n0::/\n", {"cpu.max": "many few"}, UNLIMITED),
    "no period": ("0::/\n", {"cpu.max": "100000 0"}, UNLIMITED),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CXX is None:
        pytest.skip("there is no C++ compiler")
    binary = tmp_path_factory.mktemp("cpus") / "cpus"
    sources = [HERE / "cpus.cpp", HERE.parents[1] / "native" / "src" / "cpus.cpp"]
    subprocess.run([CXX, "-std=c++17", *map(str, sources), "-o", str(binary), "-pthread"], check=True)
    return binary


@pytest.mark.parametrize("name", CASES)
def test_cpus_of_control_groups(name: str, program: Path, tmp_path: Path) -> None:
    groups, files, wanted = CASES[name]
    files = {"proc/self/cgroup": groups} | {f"sys/fs/cgroup/{path}": text for path, text in files.items()}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert int(subprocess.run([program, tmp_path], capture_output=True, text=True, check=True).stdout) == wanted


def test_without_control_groups(program: Path, tmp_path: Path) -> None:
    assert int(subprocess.run([program, tmp_path], capture_output=True, text=True, check=True).stdout) == UNLIMITED
