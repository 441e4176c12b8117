"""The version that is installed. Its one source is pyproject.toml."""

from __future__ import annotations

from importlib import metadata


def version_of(distribution: str = "rnnbridge") -> str:
    """The version of an installed distribution, "" if it is not: rnnbridge itself in a bare source tree."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
