"""A place in the bytes of a file: little-endian numbers and texts one after another, none past the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rnnbridge.errors import FormatError


@dataclass
class Cursor:
    """A place in a file that moves as it is read.

    Args:
        path: for messages.
        content: all of the file.
        at: the place, in bytes.

    Its readers raise FormatError, with the place, where the file ends or claims more than it holds.
    """

    path: Path
    content: bytes
    at: int = 0

    def error(self, text: str) -> FormatError:
        """An error at this place."""
        return FormatError(f"{self.path}: byte {self.at}: {text}")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size > len(self.content) - self.at:
            raise self.error(f"{size} bytes should follow and {len(self.content) - self.at} do (truncated?)")
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, width: int) -> int:
        """A whole number of so many bytes, without a sign."""
        return int.from_bytes(self.take(width), "little")

    def count(self, what: str, least: int) -> int:
        """How many things follow, in 8 bytes; each is of at least so many bytes itself."""
        count = self.number(8)
        if count * least > len(self.content) - self.at:
            raise self.error(f"{count} {what} cannot be in the {len(self.content) - self.at} bytes that follow")
        return count

    def text(self) -> str:
        """A text after its size, in 8 bytes."""
        try:
            return self.take(self.number(8)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"a name that is no text: {error}") from error
