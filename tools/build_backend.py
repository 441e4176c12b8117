"""The build backend: scikit-build-core, and a pure-Python build where the engine cannot be compiled.

Knows nothing of what is built. Only Windows and a missing compiler make a build pure: elsewhere a build that breaks is
an error. (scikit-build-core's own `if.failed` override cannot tell the two apart.)
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from scikit_build_core import build as skbuild
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = dict[str, Any] | None

NOTICE = """
*** rnnbridge: {reason}, so it is installed without the native engine.
*** It inspects and converts as usual, with NumPy as the judge, but rb.layer, rb.LSTM, rb.GRU and rb.RNN will not run.
*** {cure}
"""
WINDOWS = ("the engine is not made for Windows", "For the engine install rnnbridge in WSL, Windows's own Linux.")
NO_COMPILER = (
    "no C++ compiler was found",
    "For the engine install one (Debian, Ubuntu: apt install g++; macOS: xcode-select --install), then:\n"
    "***     pip install --force-reinstall --no-deps --no-cache-dir --no-binary rnnbridge rnnbridge\n"
    "*** or, instead of the last word, the folder it came from.",
)


def runs(command: list[str]) -> bool:
    """Whether the compiler is there and answers; macOS has a `c++` that only asks to install one."""
    try:
        return subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def has_compiler() -> bool:
    """Look where CMake looks: $CXX alone where it is set, else the usual names (the engine needs GCC or Clang)."""
    if "CMAKE_TOOLCHAIN_FILE" in os.environ:
        return True
    if "CXX" in os.environ:
        return runs(shlex.split(os.environ["CXX"]))
    return any(runs([name]) for name in ("c++", "g++", "clang++"))


def obstacle() -> tuple[str, str] | None:
    """Why the engine cannot be compiled here, and the cure; None where it can."""
    if sys.platform == "win32":
        return WINDOWS
    return None if has_compiler() else NO_COMPILER


def settle(settings: Settings) -> Settings:
    """The caller's settings, without CMake where it could not compile the engine."""
    return {**(settings or {}), "wheel.cmake": "false"} if obstacle() else settings


def notify() -> None:
    """Say that the build is pure. pip shows a build's output only under -v, so a terminal is told directly."""
    found = obstacle()
    if found is None:
        return
    notice = NOTICE.format(reason=found[0], cure=found[1])
    print(notice, file=sys.stderr, flush=True)
    with contextlib.suppress(OSError), Path("/dev/tty").open("w") as terminal:
        terminal.write(notice)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return skbuild.get_requires_for_build_wheel(settle(config_settings))


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return skbuild.get_requires_for_build_editable(settle(config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    return skbuild.prepare_metadata_for_build_wheel(metadata_directory, settle(config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    return skbuild.prepare_metadata_for_build_editable(metadata_directory, settle(config_settings))


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    notify()
    return skbuild.build_wheel(wheel_directory, settle(config_settings), metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    notify()
    return skbuild.build_editable(wheel_directory, settle(config_settings), metadata_directory)
