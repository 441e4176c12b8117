"""Text attributes of any length in HDF5 files, read without the C library, which a damaged length can crash.

Such a text lies in a global heap; the attribute holds its length, the heap's address and the text's number there. Here
each is checked against the file before it is followed. Formats: HDF5 File Format Specification 3.0, sections III.E
(global heap), IV.A.1 (object headers) and IV.A.2.m (attributes), with addresses and lengths of 8 bytes as everybody
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from rnnbridge.errors import FormatError

_ATTRIBUTE, _CONTINUATION = 0x0C, 0x10
_VARIABLE_LENGTH = 9
_REFERENCE = 16  # length 4, heap address 8, number in the heap 4
_SHARED = 2
_MOST_BLOCKS = 4096
_MOST_BYTES = 1 << 31


class Texts:
    """The text attributes of an open file.

    Args:
        file: its bytes.
        size: how many there are.
        start: where the HDF5 content begins, behind a user block.
    """

    def __init__(self, file: BinaryIO, size: int, start: int = 0) -> None:
        self._file, self._size, self._start = file, size, start
        self._heaps: dict[int, dict[int, bytes]] = {}

    def of(self, address: int, name: str, count: int) -> list[bytes]:
        """The texts of one attribute.

        Args:
            address: of the object that has it.
            name: the attribute's.
            count: how many texts it holds.

        Raises:
            FormatError: there is no such attribute, or its texts are not where it says.
        """
        for message in self._messages(address):
            found = _variable_length(message)
            if found is not None and found[0] == name.encode():
                references = found[1][: count * _REFERENCE]
                return [self._text(references[at : at + _REFERENCE]) for at in range(0, count * _REFERENCE, _REFERENCE)]
        raise FormatError(f"the attribute {name!r} is stored in a form that is not read")

    def _bytes(self, address: int, count: int) -> bytes:
        if not 0 <= count <= _MOST_BYTES or not 0 <= address <= self._size - self._start - count:
            raise FormatError(f"{count} bytes at {address} are not in the file")
        self._file.seek(self._start + address)
        return self._file.read(count)

    def _number(self, address: int, count: int) -> int:
        return int.from_bytes(self._bytes(address, count), "little")

    def _text(self, reference: bytes) -> bytes:
        if len(reference) < _REFERENCE:
            raise FormatError("a text attribute is shorter than it says")
        length, heap, number = (int.from_bytes(reference[a:b], "little") for a, b in ((0, 4), (4, 12), (12, 16)))
        if length == 0:
            return b""
        text = self._heap(heap).get(number)
        if text is None or length > len(text):
            raise FormatError(f"a text of {length} bytes is not in the heap at {heap}")
        return text[:length]

    def _heap(self, address: int) -> dict[int, bytes]:
        if address not in self._heaps:
            if self._bytes(address, 4) != b"GCOL":
                raise FormatError(f"there is no heap at {address}")
            self._heaps[address] = dict(_objects(self._bytes(address, self._number(address + 8, 8))))
        return self._heaps[address]

    def _messages(self, address: int) -> Iterator[bytes]:
        """The attribute messages of an object header, of either version."""
        old = self._bytes(address, 4) != b"OHDR"
        head, blocks = (8, [(address + 16, self._number(address + 8, 4))]) if old else self._first_of_new(address)
        for count, (start, size) in enumerate(blocks):
            if count > _MOST_BLOCKS:
                raise FormatError("an object header goes on without end")
            for kind, flags, content in _split(self._bytes(start, size), old, head):
                if kind == _CONTINUATION and len(content) >= 16:
                    at, length = int.from_bytes(content[:8], "little"), int.from_bytes(content[8:16], "little")
                    blocks.append((at, length) if old else (at + 4, length - 8))
                elif kind == _ATTRIBUTE and not flags & _SHARED:
                    yield content

    def _first_of_new(self, address: int) -> tuple[int, list[tuple[int, int]]]:
        flags = self._number(address + 5, 1)
        at = address + 6 + 16 * bool(flags & 0x20) + 4 * bool(flags & 0x10)
        width = 1 << (flags & 3)
        return 4 + 2 * bool(flags & 4), [(at + width, self._number(at, width))]


def _split(block: bytes, old: bool, head: int) -> Iterator[tuple[int, int, bytes]]:
    """(type, flags, content) of the messages in a block of an object header."""
    at = 0
    while at + head <= len(block):
        kind = int.from_bytes(block[at : at + (2 if old else 1)], "little")
        size = int.from_bytes(block[at + 2 : at + 4] if old else block[at + 1 : at + 3], "little")
        flags = block[at + (4 if old else 3)]
        yield kind, flags, block[at + head : at + head + size]
        at += head + size


def _variable_length(message: bytes) -> tuple[bytes, bytes] | None:
    """(name, data) of an attribute message whose type is one of variable length."""
    if len(message) < 9 or message[0] not in (1, 2, 3):
        return None
    sizes = [int.from_bytes(message[at : at + 2], "little") for at in (2, 4, 6)]
    if message[0] == 1:  # each part is padded to a multiple of 8
        sizes = [-(-size // 8) * 8 for size in sizes]
    begin = 9 if message[0] == 3 else 8
    name, kind = message[begin : begin + sizes[0]], message[begin + sizes[0] : begin + sum(sizes[:2])]
    if not kind or kind[0] & 15 != _VARIABLE_LENGTH:
        return None
    return name.partition(b"\0")[0], message[begin + sum(sizes) :]


def _objects(heap: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the objects in a global heap."""
    at = 16
    while at + 16 <= len(heap):
        number, size = int.from_bytes(heap[at : at + 2], "little"), int.from_bytes(heap[at + 8 : at + 16], "little")
        if number == 0 or at + 16 + size > len(heap):
            return
        yield number, heap[at + 16 : at + 16 + size]
        at += 16 + -(-size // 8) * 8
