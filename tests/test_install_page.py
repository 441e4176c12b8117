"""docs/install.md says what pyproject.toml, the engine and its error messages say."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import rnnbridge as rb
from rnnbridge._native import find

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomllib", reason="tomllib came with Python 3.11")

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "install.md").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def first_cells(heading: str) -> set[str]:
    """What the rows of the table under a heading are named, those that are code."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))


def test_it_lists_every_extra() -> None:
    assert first_cells("Extras") == set(PROJECT["project"]["optional-dependencies"])


def test_it_lists_every_environment_variable() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "native" / "src").rglob("*.cpp"))
    assert first_cells("Environment variables") == {find.ENVIRONMENT, *re.findall(r'getenv\("(\w+)"\)', sources)}


def test_the_page_and_the_missing_engine_name_the_floor_of_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    floors = {settings[f"manylinux-{arch}-image"] for arch in ("x86_64", "aarch64")}
    (floor,) = (image.removeprefix("manylinux_").replace("_", ".") for image in floors)
    monkeypatch.delenv(find.ENVIRONMENT, raising=False)
    monkeypatch.setattr(find, "_PLACES", {})
    with pytest.raises(rb.NativeError, match=rf"x86-64, aarch64; glibc {re.escape(floor)} or newer"):
        find.find_library()
    assert f"x86-64 or aarch64, glibc {floor} or newer" in PAGE
