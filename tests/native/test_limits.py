"""The functions that a benchmark times: what they count, and what they refuse."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from rnnbridge._native import build_info, codes, library
from rnnbridge.engine import aligned_empty
from rnnbridge.errors import ArgumentError


def operations(dtype: int, rounds: int) -> int:
    count = ctypes.c_int64(-1)
    library().rnb_bench_multiply_add(dtype, rounds, count)
    return count.value


def test_operations_are_those_of_whole_vectors() -> None:
    single, double = (operations(codes("dtype")[name], 1) for name in ("float32", "float64"))
    assert single == 2 * double > 0
    assert operations(codes("dtype")["float32"], 1000) == 1000 * single
    assert operations(codes("dtype")["float32"], 0) == 0


@pytest.mark.parametrize("isa", build_info()["isa"]["usable"])
def test_every_instruction_set_has_them(isa: str) -> None:
    script = (
        "from rnnbridge.bench.limits import Limits\n"
        "for dtype in ('float32', 'float64'): print(*Limits(dtype, 2).measure().values())"
    )
    environment = {**os.environ, "RNNBRIDGE_ISA": isa}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert all(float(word) > 0 for word in done.stdout.split())


def test_what_does_not_fit_is_refused() -> None:
    block = aligned_empty(2048)
    place = block.ctypes.data
    with pytest.raises(ArgumentError, match=r"accepted are 1 \(float32\) and 2"):
        operations(3, 1)
    with pytest.raises(ArgumentError, match="rounds is -1"):
        operations(1, -1)
    with pytest.raises(ArgumentError, match="operations is NULL"):
        library().rnb_bench_multiply_add(1, 1, None)
    with pytest.raises(ArgumentError, match="data is NULL"):
        library().rnb_bench_read(None, 1024, 1)
    with pytest.raises(ArgumentError, match="not aligned"):
        library().rnb_bench_read(place + 4, 1024, 1)
    with pytest.raises(ArgumentError, match="nbytes is 1000"):
        library().rnb_bench_read(place, 1000, 1)
    with pytest.raises(ArgumentError, match="times is -1"):
        library().rnb_bench_read(place, 1024, -1)
