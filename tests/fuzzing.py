"""What the tests of damaged files share: a file's content changed in every way that a fuzzer changes it, and read.

For formats whose golden files are small. By hand, as long as one likes: RNNBRIDGE_FUZZ_DRAWS=100000 pytest -k fuzz.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rnnbridge as rb

DRAWS = int(os.environ.get("RNNBRIDGE_FUZZ_DRAWS", "0"))


def is_refused(path: Path, content: bytes, format_name: str, settings: Mapping[str, str] | None = None) -> bool:
    """Whether a file with that content is refused, with its folder's name in the message; other errors go through."""
    path.write_bytes(content)
    try:
        rb.load(path, format=format_name, settings=settings)
    except rb.FormatError as error:
        assert str(path.parent) in str(error), error  # noqa: PT017 (some are errors, some are not)
        return True
    return False


class Copy:
    """Golden files in a folder of their own, one of which is damaged and one, the same or another, read.

    Args:
        source: their folder.
        broken, read: names in it.
        ignore: what is not copied, as `shutil.copytree` takes it.
    """

    def __init__(
        self,
        source: Path,
        broken: str,
        read: str,
        format_name: str,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        ignore: Any = None,
    ) -> None:
        shutil.copytree(source, folder / "copy", ignore=ignore)
        self.broken, self.path = (folder / "copy" / name for name in (broken, read))
        self.format, self.settings, self.content = format_name, settings, self.broken.read_bytes()

    def is_refused(self, content: bytes) -> bool:
        self.broken.write_bytes(content)
        return is_refused(self.path, self.path.read_bytes(), self.format, self.settings)


def damaged(content: bytes, draws: int, seed: int = 7) -> Iterator[bytes]:
    """Content with bytes changed, taken out, put in, or copied from elsewhere in it. `draws` is the least."""
    rng = np.random.default_rng(seed)
    for _ in range(max(draws, DRAWS)):
        place, source, length = (int(rng.integers(len(content))) for _ in range(3))
        noise = rng.integers(0, 256, 1 + length % 8, np.uint8).tobytes()
        changed = (
            content[:place] + noise[:1] + content[place + 1 :],
            content[:place] + bytes([content[place] ^ (1 << length % 8)]) + content[place + 1 :],
            content[:place] + content[place + 1 + length % 8 :],
            content[:place] + noise + content[place:],
            content[:place] + content[source : source + length % 60] + content[place:],
        )
        yield changed[int(rng.integers(len(changed)))]


def cut(content: bytes, about: int = 40) -> Iterator[bytes]:
    """Content cut at about so many places, its first and last bytes among them."""
    for end in sorted({*range(min(24, len(content))), *range(24, len(content), max(len(content) // about, 1))}):
        yield content[:end]
    yield content[:-1]
