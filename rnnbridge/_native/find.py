"""Where the compiled library is. Knows nothing of what is inside it."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rnnbridge.errors import NativeError

ENVIRONMENT = "RNNBRIDGE_LIBRARY"
_NAMES = {"darwin": "librnnbridge.dylib", "win32": "rnnbridge.dll"}
FILE_NAME = _NAMES.get(sys.platform, "librnnbridge.so")


def find_library() -> Path:
    """The library's path: the file that RNNBRIDGE_LIBRARY names, else the one inside the package.

    Raises:
        NativeError: with every place that was tried and what to do.
    """
    if override := os.environ.get(ENVIRONMENT):
        return _existing(Path(override))
    tried: list[str] = []
    for what, look in _PLACES.items():
        path = look()
        if path is not None and path.is_file():
            return path
        tried.append(f"{what}: {path or 'none'}")
    raise NativeError(
        "\n  - ".join(("the compiled library of the engine is not here; it was looked for in", *tried))
        + "\nConverting and inspecting work without it. The wheels for Linux (x86-64, aarch64; glibc 2.28 or newer)"
        "\nbring it. Elsewhere on Linux, and on macOS, install a C++ compiler and let the installation build it:"
        "\n  pip install --force-reinstall --no-deps --no-cache-dir --no-binary rnnbridge rnnbridge"
        "\n(or, instead of the last word, the folder it came from). On Windows use WSL."
        f"\nOr set {ENVIRONMENT} to the path of a built {FILE_NAME}."
    )


def _existing(path: Path) -> Path:
    if path.is_file():
        return path
    raise NativeError(f"{ENVIRONMENT} is {str(path)!r}, which is not a file; unset it, or give a built {FILE_NAME}")


def _beside_the_modules() -> Path | None:
    found = importlib.resources.files("rnnbridge").joinpath("lib", FILE_NAME)
    return found if isinstance(found, Path) else None


def _in_the_installed_distribution() -> Path | None:
    """A source tree that comes first on sys.path has no library of its own; the package that is installed has one."""
    try:
        files = importlib.metadata.files("rnnbridge") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    ours = [file for file in files if file.parts[-3:] == ("rnnbridge", "lib", FILE_NAME)]
    return Path(str(ours[0].locate())) if ours else None


_PLACES: dict[str, Callable[[], Path | None]] = {
    "the package": _beside_the_modules,
    "the files of the installed distribution": _in_the_installed_distribution,
}
