"""What the whole suite shares: which frameworks are here to judge, printed first, and tests that need a network."""

import os
from importlib import metadata

import pytest

from rnnbridge.cli.info import EXTRAS


def found(distribution: str) -> str:
    try:
        return f"{distribution} {metadata.version(distribution)}"
    except metadata.PackageNotFoundError:
        return f"no {distribution}"


def pytest_report_header() -> str:
    return f"frameworks: {', '.join(found(name) for name in EXTRAS)}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") and os.environ.get("RNNBRIDGE_OFFLINE"):
        pytest.skip("needs a network, and RNNBRIDGE_OFFLINE is set")
