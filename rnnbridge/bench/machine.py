"""What the numbers were measured on: CPU, system, versions, flags. Measures nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from rnnbridge import _native
from rnnbridge.bench.workers import pinned_to
from rnnbridge.version import version_of


def machine(settings: Any) -> dict[str, Any]:
    """Words and numbers for the record."""
    build = _native.build_info()
    pinned = pinned_to(1)
    return {
        "CPU": _cpu(),
        "CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": " ".join(f"{one:.1f}" for one in os.getloadavg()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}",
        "rnnbridge": f"{version_of() or 'from its source'}, engine {build['version']}, {build['isa']['active']}",
        "method": f"{settings.blocks} pairs of at least {settings.seconds * 1e3:g} ms a side, "
        + ("pinned" if pinned else "not pinned: this system does not offer it"),
    }


def _cpu() -> str:
    """The CPU's own name, where the system tells it."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8", errors="replace").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
