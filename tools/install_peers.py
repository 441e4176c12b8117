"""Install the frameworks that judge rnnbridge into the running Python, and say which of them had to be left out.

The list is requirements/peers.txt. A framework without a wheel of the pinned version for this Python is installed in
the newest version that has one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).parent.parent / "requirements" / "peers.txt"
# tf-keras requires `tensorflow` by name; tensorflow-cpu is the same module under another.
WITHOUT_DEPENDENCIES = {"tf-keras": "tensorflow-cpu"}


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def pip_install(*arguments: str, quiet: bool = False) -> bool:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=quiet, check=False).returncode == 0


def best(requirement: str) -> str | None:
    """The requirement itself, its bare name, or None: the first that has a wheel for this Python."""
    probe = ("--dry-run", "--no-deps", "--only-binary=:all:")
    return next((r for r in (requirement, name_of(requirement)) if pip_install(*probe, r, quiet=True)), None)


def wanted(torch: str, only: list[str]) -> list[str]:
    lines = (line.split("#")[0].strip() for line in PEERS.read_text().splitlines())
    listed = [torch, *filter(None, lines)]
    return [requirement for requirement in listed if not only or name_of(requirement) in only]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, metavar="REQUIREMENT")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--full", action="store_true", help="fail instead of leaving a framework out")
    options = parser.parse_args()

    found = {name_of(r): (r, best(r)) for r in wanted(options.torch, options.only)}
    for name, provider in WITHOUT_DEPENDENCIES.items():
        if name in found and found.get(provider, ("", None))[1] is None:
            found[name] = (found[name][0], None)
    left_out = [requirement for requirement, choice in found.values() if choice is None]
    for requirement in left_out:
        print(f"left out: {requirement} has no wheel for Python {sys.version.split()[0]}; its tests are skipped")
    if left_out and options.full:
        return 1

    chosen = {name: choice for name, (_, choice) in found.items() if choice}
    alone = [chosen.pop(name) for name in WITHOUT_DEPENDENCIES if name in chosen]
    # One call for all, so that pip finds versions of NumPy and h5py that suit every framework.
    done = pip_install(*chosen.values()) and all(pip_install("--no-deps", requirement) for requirement in alone)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
