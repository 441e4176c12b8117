"""Fresh virtual environments and what is run in them. Knows that rnnbridge is installed there, not what it does."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    code: int
    output: str


def run(*command: object, cwd: Path, **environment: str) -> Result:
    """Run without what would lead to the source tree: PYTHONPATH, and the variables of the environment's own tools."""
    left_out = ("PYTHONPATH", "RNNBRIDGE_LIBRARY", "CXX", "CMAKE_ARGS")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout)


def succeed(*command: object, cwd: Path, **environment: str) -> str:
    result = run(*command, cwd=cwd, **environment)
    assert result.code == 0, result.output
    return result.output


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment with rnnbridge and its base dependencies, and an empty folder to start from."""

    folder: Path
    install_log: str

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.folder / "venv" / "bin" / "rnnbridge"

    @property
    def empty(self) -> Path:
        (self.folder / "empty").mkdir(exist_ok=True)
        return self.folder / "empty"

    @property
    def package(self) -> Path:
        """The installed package's folder."""
        script = "import rnnbridge; print(rnnbridge.__path__[0])"
        return Path(succeed(self.python, "-c", script, cwd=self.empty).strip())


def install(folder: Path, what: Path, **environment: str) -> Environment:
    venv.create(folder / "venv", with_pip=True)
    log = succeed(folder / "venv" / "bin" / "python", "-m", "pip", "install", "-v", what, cwd=folder, **environment)
    return Environment(folder, log)


def path_without_compiler(folder: Path) -> str:
    """A PATH on which there is a Python and nothing else."""
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    return str(folder)
