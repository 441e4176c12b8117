"""The tables of the documents are what the converters say and do today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_documents_tables_are_what_would_be_written() -> None:
    for package in ("torch", "onnx"):
        pytest.importorskip(package, reason=f"{package} is not installed: its files cannot be written")
    command = [sys.executable, "tools/write_tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
