"""Sorted tables of LevelDB's format, which TensorFlow's checkpoint indexes are: key -> value. Knows no checkpoint.

Keys are stored without what they share with the one before, in blocks that may be packed by Snappy and end in a
checksum: https://github.com/google/leveldb/blob/main/doc/table_format.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rnnbridge.errors import FormatError
from rnnbridge.files.crc32c import masked_crc
from rnnbridge.files.protobuf import encoded, varint
from rnnbridge.files.snappy import unpacked

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER, _TRAILER = 48, 5
_PACKED = {0: False, 1: True}
_MOST = 64  # keys that share their beginnings grow, but not beyond so many bytes for each of the file's


def ends_as_table(tail: bytes) -> bool:
    """Whether a file that ends so is one."""
    return tail.endswith(_MAGIC)


def read_table(content: bytes, where: str) -> dict[bytes, bytes]:
    """Key -> value, in order.

    Raises:
        FormatError: a block that lies outside, does not have its checksum, or whose keys are not in order.
    """
    view = memoryview(content)
    if len(content) < _FOOTER or not ends_as_table(content):
        raise FormatError(f"{where}: no sorted table, or a truncated one ({len(content)} bytes)")
    _, place = _handle(view[-_FOOTER:], 0, where)
    index, _ = _handle(view[-_FOOTER:], place, where)
    found: dict[bytes, bytes] = {}
    last: bytes | None = None
    room = _MOST * len(content)
    for _, value in _entries(_block(view, index, where), where, room):
        block, _ = _handle(memoryview(value), 0, where)
        for key, held in _entries(_block(view, block, where), where, room):
            room -= len(key)
            if room < 0 or (last is not None and key <= last):
                raise FormatError(f"{where}: the key {key[:80]!r} is not behind {(last or b'')[:80]!r} (damaged)")
            found[key], last = bytes(held), key
    return found


def table_bytes(entries: Mapping[bytes, bytes]) -> bytes:
    """A table with one block of entries, in the order of their keys; nothing is packed."""
    content, held = _placed(b"", {key: entries[key] for key in sorted(entries)})
    content, other = _placed(content, {})  # the second index, of filters, has nothing
    content, index = _placed(content, {max(entries): held})
    return content + (other + index).ljust(_FOOTER - len(_MAGIC), b"\0") + _MAGIC


def _placed(content: bytes, entries: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
    """A file with one more block, and where that lies."""
    block = _block_bytes(entries)
    trailer = b"\0" + masked_crc(block, b"\0").to_bytes(4, "little")
    return content + block + trailer, encoded(len(content), len(block))


def _block_bytes(entries: Mapping[bytes, bytes]) -> bytes:
    """Every key whole, and one restart: the first."""
    held = b"".join(encoded(0, len(key), len(value)) + key + value for key, value in entries.items())
    return held + bytes(4) + (1).to_bytes(4, "little")


def _handle(data: memoryview, place: int, where: str) -> tuple[tuple[int, int], int]:
    """Where a block lies: (offset, size)."""
    offset, place = varint(data, place, where)
    size, place = varint(data, place, where)
    return (offset, size), place


def _block(content: memoryview, handle: tuple[int, int], where: str) -> memoryview:
    offset, size = handle
    if offset + size + _TRAILER > len(content) - _FOOTER:
        raise FormatError(f"{where}: a block of {size} bytes at {offset} lies outside its {len(content)} bytes")
    block, kind = content[offset : offset + size], content[offset + size]
    stored = int.from_bytes(content[offset + size + 1 : offset + size + _TRAILER], "little")
    if masked_crc(block, bytes([kind])) != stored:
        raise FormatError(f"{where}: the block at byte {offset} does not have its checksum (damaged)")
    if kind not in _PACKED:
        raise FormatError(f"{where}: the block at byte {offset} is packed in way {kind}; none and Snappy are read")
    return memoryview(unpacked(block, f"{where}: block at byte {offset}")) if _PACKED[kind] else block


def _entries(block: memoryview, where: str, room: int) -> Iterator[tuple[bytes, memoryview]]:
    """The entries of a block; the places of its restarts, which are for searching, stand behind them."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    if end < 0 or len(block) < 4:
        raise FormatError(f"{where}: a block of {len(block)} bytes cannot have {restarts} restarts (damaged)")
    place, key = 0, b""
    while place < end:
        shared, place = varint(block, place, where)
        own, place = varint(block, place, where)
        size, place = varint(block, place, where)
        room -= shared + own
        if shared > len(key) or own + size > end - place or room < 0:
            raise FormatError(f"{where}: an entry behind {key[:80]!r} does not fit into its block (damaged)")
        key = key[:shared] + bytes(block[place : place + own])
        yield key, block[place + own : place + own + size]
        place += own + size
