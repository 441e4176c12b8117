"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rnnbridge.errors import FileAccessError, TargetExistsError


def check_writable(target: Path) -> None:
    """Find out whether `replacing` could write here, and leave nothing.

    Raises:
        FileAccessError: a folder that is missing or cannot be written.
    """
    with suppress(_Unwanted), replacing(target, overwrite=True) as draft:
        draft.touch()
        raise _Unwanted


class _Unwanted(Exception):
    pass


@contextmanager
def replacing(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `target` to write to; rename it to `target` when the block ends well, remove it when not.

    A format of several files writes the others beside the path it is given: they are published with it, and before it.

    Raises:
        TargetExistsError: before anything is written, where the target is there and `overwrite` is false.
        FileAccessError: a folder that is missing or cannot be written, a full disk.
    """
    folder: Path | None = None
    try:
        _check(target, overwrite=overwrite)
        folder = Path(tempfile.mkdtemp(prefix=".rnnbridge-", dir=target.parent))
        draft = folder / target.name
        yield draft
        others = [one for one in sorted(folder.iterdir()) if one != draft]
        for other in others:
            _check(target.with_name(other.name), overwrite=overwrite)
        for written in [*others, draft]:
            _publish(written, target.with_name(written.name), overwrite=overwrite)
    except (FileAccessError, TargetExistsError):
        raise
    except OSError as error:
        raise FileAccessError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if folder is not None:
            _remove(folder)


def _remove(folder: Path) -> None:
    for draft in folder.iterdir():
        with suppress(OSError):  # it may be another's by now
            draft.unlink()
    folder.rmdir()


def _check(target: Path, *, overwrite: bool) -> None:
    try:
        target.lstat()
    except FileNotFoundError:
        return
    if target.is_dir():
        raise FileAccessError(f"{target} is a folder; give the name of a file")
    if not target.is_file():
        raise FileAccessError(f"{target} is no regular file (a device, a pipe, a link to nothing) and is left alone")
    if not overwrite:
        raise TargetExistsError(f"{target} exists; give another name, or overwrite=True (--force) to replace it")


def _publish(draft: Path, target: Path, *, overwrite: bool) -> None:
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    if overwrite:
        draft.replace(target)
    else:
        try:
            os.link(draft, target)  # unlike a rename, fails where somebody made the target meanwhile
        except FileExistsError:
            raise TargetExistsError(f"{target} was made by somebody else meanwhile") from None
