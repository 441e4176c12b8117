"""Packages fetched into a cache for the models in them. A test that cannot have one is skipped, saying why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("RNNBRIDGE_CACHE", Path.home() / ".cache" / "rnnbridge-tests"))


def package(name: str, version: str, *options: str) -> Path:
    """The archive of a package, downloaded once and not installed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = sorted(CACHE.glob(f"{name}-{version}*"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options, f"{name}=={version}"]
        done = subprocess.run([*command, "--dest", str(CACHE)], capture_output=True, text=True, check=False)
        found = sorted(CACHE.glob(f"{name}-{version}*"))
        if done.returncode or not found:
            pytest.skip(f"{name} {version} cannot be downloaded: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return found[0]
