"""Zip archives and the `.npy` arrays in them, read with limits and written with the same bytes every time.

Knows nothing of what the members mean. No array is ever unpickled.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError

Array = NDArray[Any]
# Deflate reaches 1000 : 1 on zeros; weights compress to no less than a half, and some files hold a few zeros.
_GROWTH = 64
_SPARE = 1 << 24
_LOCAL_HEADER = 30  # bytes before the first member's name
_EPOCH = (1980, 1, 1, 0, 0, 0)


def largest_content(file_size: int) -> int:
    """The most bytes that a file of this size may unfold to; what claims more is a bomb or damaged."""
    return _GROWTH * file_size + _SPARE


def member_names(path: Path, head: bytes) -> list[str]:
    """The members' names; of an archive without a directory the first one's, from the file's first bytes.

    So a truncated archive is still known for what it was. Empty if it is no zip archive at all.
    """
    if not head.startswith(b"PK\x03\x04"):
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except Exception:  # noqa: BLE001 (damaged archives raise a dozen kinds; reading one says what is wrong)
        length = int.from_bytes(head[26:28], "little")
        return [head[_LOCAL_HEADER : _LOCAL_HEADER + length].decode("utf-8", "replace")]


def read_members(
    path: Path, only: Collection[str] | None = None, *, checksums_optional: bool = False
) -> dict[str, bytes]:
    """Read a whole archive.

    Args:
        only: the members wanted, each of which must be there; None is all.
        checksums_optional: a checksum of 0 is none, as torch writes it where it is told to save the time.

    Raises:
        FormatError: no zip archive, truncated, a wrong checksum, a name twice, a wanted member that is missing, or
            contents beyond `largest_content`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_directory(archive, path)
            have = archive.namelist()
            if missing := [name for name in only or () if name not in have]:
                raise FormatError(
                    f"{path}: the archive has no {', '.join(missing)} among {', '.join(have) or 'nothing'}"
                )
            for entry in archive.infolist() if checksums_optional else ():
                entry.CRC = entry.CRC or None  # type: ignore[assignment]  # None is not checked
            return {name: archive.read(name) for name in (have if only is None else only)}
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"{path}: damaged zip archive: {error or type(error).__name__}") from error


def check_directory(path: Path) -> None:
    """Check an archive's directory, without reading the members. Raises FormatError as `read_members` does."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_directory(archive, path)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"{path}: damaged zip archive: {error or type(error).__name__}") from error


def write_members(path: Path, members: Mapping[str, bytes]) -> None:
    """Write an archive, uncompressed, in the order given; the same members give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.create_system = 3  # Unix everywhere, and not the system that wrote it
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def npy_bytes(array: Array) -> bytes:
    """An array as a `.npy` file of version 1.0."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def read_npy(content: bytes, where: str) -> Array:
    """Read a `.npy` file; the array is read-only.

    Args:
        where: the file and member, for the errors.

    Raises:
        FormatError: another version, a header that cannot be read, objects, or another number of bytes than it says.
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = headers[version](stream)
    except Exception as error:
        raise FormatError(f"{where}: no .npy array of version 1.0 or 2.0: {error}") from error
    if dtype.kind not in "fiub" or any(extent < 0 for extent in shape):
        raise FormatError(f"{where}: an array of {dtype} {list(shape)}; plain numbers are read")
    have, wanted = len(content) - stream.tell(), math.prod(shape) * dtype.itemsize
    if have != wanted:
        raise FormatError(f"{where}: {dtype} {list(shape)} takes {wanted} bytes and {have} are there")
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _check_directory(archive: zipfile.ZipFile, path: Path) -> None:
    names = archive.namelist()
    if twice := sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []:
        raise FormatError(f"{path}: the archive has {', '.join(map(repr, twice))} more than once")
    unfolded, limit = sum(entry.file_size for entry in archive.infolist()), largest_content(path.stat().st_size)
    if unfolded > limit:
        raise FormatError(f"{path}: its members unfold to {unfolded} bytes; at most {limit} are read from such a file")
