"""Protocol buffers on the wire: the numbered fields of a message, with no schema. Knows no message by name.

What a field means is its reader's business; here it is a whole number, or bytes, which may hold a message of their own.
Nothing is copied: bytes are views of what is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rnnbridge.errors import FormatError

_LONGEST_NUMBER = 10
_FIXED = {1: 8, 5: 4}  # wire type -> bytes


@dataclass(frozen=True)
class Message:
    """A parsed message: field number -> what stands there, in order. `where` begins every error."""

    where: str
    numbers: dict[int, list[int]]
    chunks: dict[int, list[memoryview]]

    def number(self, field: int, default: int = 0) -> int:
        """The last whole number of a field; signed ones come as two's complement, see `signed`."""
        return self.numbers.get(field, [default])[-1]

    def signed(self, field: int) -> int:
        """An int32 or int64."""
        value = self.number(field)
        return value - (1 << 64) if value >> 63 else value

    def real(self, field: int) -> float:
        """A float, which is stored in four bytes."""
        return float(struct.unpack("<f", struct.pack("<I", self.number(field) & 0xFFFFFFFF))[0])

    def listed(self, field: int) -> list[int]:
        """A repeated whole number, packed or not."""
        packed = [value for chunk in self.chunks.get(field, []) for value in _varints(chunk, self.where)]
        return [*self.numbers.get(field, []), *packed]

    def raw(self, field: int) -> memoryview:
        """The bytes of a field, none if it is absent."""
        return self.chunks.get(field, [memoryview(b"")])[-1]

    def text(self, field: int) -> str:
        """A field that holds text."""
        return decoded(self.raw(field), self.where)

    def texts(self, field: int) -> list[str]:
        """A repeated field of text."""
        return [decoded(chunk, self.where) for chunk in self.chunks.get(field, [])]

    def message(self, field: int) -> Message:
        """A message inside, empty if it is absent."""
        return parse(self.raw(field), self.where)

    def messages(self, field: int) -> Iterator[Message]:
        """A repeated message."""
        return (parse(chunk, self.where) for chunk in self.chunks.get(field, []))


def parse(data: bytes | memoryview, where: str) -> Message:
    """Take a message apart, one level deep.

    Raises:
        FormatError: it ends early, or a tag is none.
    """
    view, place = memoryview(data), 0
    numbers: dict[int, list[int]] = {}
    chunks: dict[int, list[memoryview]] = {}
    while place < len(view):
        tag, place = varint(view, place, where)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = varint(view, place, where)
            numbers.setdefault(field, []).append(value)
            continue
        if kind != 2 and kind not in _FIXED:
            raise FormatError(f"{where}: a message has a field of wire type {kind} (damaged?)")
        size, place = varint(view, place, where) if kind == 2 else (_FIXED[kind], place)
        if size > len(view) - place:
            raise FormatError(f"{where}: a field of {size} bytes where {len(view) - place} follow (truncated?)")
        chunk, place = view[place : place + size], place + size
        if kind == 2:
            chunks.setdefault(field, []).append(chunk)
        else:
            numbers.setdefault(field, []).append(int.from_bytes(chunk, "little"))
    return Message(where, numbers, chunks)


def varint(data: memoryview, place: int, where: str) -> tuple[int, int]:
    """A whole number and the place behind it. Raises FormatError where it has no end."""
    value = 0
    for index in range(_LONGEST_NUMBER):
        if place + index >= len(data):
            break
        byte = data[place + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, place + index + 1
    raise FormatError(f"{where}: byte {place} of {len(data)}: a number without an end (truncated or damaged)")


def encoded(*numbers: int) -> bytes:
    """Whole numbers as varints."""
    found = bytearray()
    for number in numbers:
        left = number & 0xFFFFFFFFFFFFFFFF
        while left > 127:
            found.append(left & 127 | 128)
            left >>= 7
        found.append(left)
    return bytes(found)


def chunk(field: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return encoded(field << 3 | 2, len(content)) + content


def decoded(raw: memoryview | bytes, where: str) -> str:
    """Bytes as text."""
    try:
        return bytes(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: a name that is no text: {error}") from error


def _varints(packed: memoryview, where: str) -> Iterator[int]:
    place = 0
    while place < len(packed):
        value, place = varint(packed, place, where)
        yield value
