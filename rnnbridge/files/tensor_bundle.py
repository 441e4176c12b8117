"""TensorFlow's tensor bundles, read and written without TensorFlow: `NAME.index` and its shards `NAME.data-...`.

Knows names, shapes and numbers, and nothing of what they mean. The layout is that of tensorflow/core/protobuf/
tensor_bundle.proto and core/util/tensor_bundle/: a sorted table whose first, empty key holds the header, and whose
others hold where an array lies. The slices of a partitioned variable have keys of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError
from rnnbridge.files import protobuf
from rnnbridge.files.crc32c import masked_crc
from rnnbridge.files.ordered_code import slice_key
from rnnbridge.files.protobuf import chunk, encoded
from rnnbridge.files.sorted_table import ends_as_table, read_table, table_bytes

Array = NDArray[Any]
SUFFIX = ".index"
_DTYPES = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 8: "<c8", 9: "<i8", 10: "?", 14: "<u2", 17: "<u2",
    18: "<c16", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip
_STRING, _BFLOAT16 = 7, 14
_CODES = {"float32": 1, "float64": 2, "float16": 19}
_MOST_DIMENSIONS = 254
_MOST_SHARDS = 100_000


@dataclass(frozen=True)
class _Entry:
    """Where an array lies. `slices` holds (start, length) by dimension, length None for the whole of it."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    slices: tuple[tuple[tuple[int, int | None], ...], ...]


class TensorBundle:
    """A bundle's names and arrays.

    Args:
        path: the index file.

    Raises:
        FormatError: the index is damaged, is of another kind, or claims what its shards cannot hold.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        table = read_table(path.read_bytes(), str(path))
        if b"" not in table:
            raise FormatError(f"{path}: its first key holds no header")
        header = protobuf.parse(table.pop(b""), f"{path}: the header")
        self._shards = header.number(1)
        if not 0 < self._shards < _MOST_SHARDS:
            raise FormatError(
                f"{path}: {self._shards} shards; it is no bundle (a checkpoint older than TensorFlow 0.12 is a table "
                "of another kind, which is not read)"
            )
        if header.number(2):
            raise FormatError(f"{path}: its numbers are big-endian, which is not read")
        self._entries = {key: self._entry(key, value) for key, value in table.items()}
        self._check_places()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The arrays of numbers, in order."""
        own = {key: entry for key, entry in self._entries.items() if not key.startswith(b"\0")}
        return tuple(protobuf.decoded(key, str(self.path)) for key, entry in own.items() if entry.dtype in _DTYPES)

    def __contains__(self, name: str) -> bool:
        return name.encode() in self._entries

    def is_bfloat16(self, name: str) -> bool:
        """Whether an array's numbers are bfloat16, which come as their bits, in uint16."""
        return self._of(name).dtype == _BFLOAT16

    def array(self, name: str) -> Array:
        """An array, put together where it is partitioned.

        Raises:
            FormatError: its shard is missing or too short, its bytes do not have their checksum, slices are missing.
        """
        entry = self._of(name)
        if not entry.slices:
            return self._numbers(name, entry)
        found = np.zeros(entry.shape, _DTYPES[entry.dtype])
        covered = 0
        for one in entry.slices:
            part = self._entries.get(slice_key(name, one))
            where = tuple(slice(start, None if length is None else start + length) for start, length in one)
            if part is None or part.slices or len(one) != found.ndim or found[where].shape != part.shape:
                raise FormatError(f"{self.path}: {name}: its slice {list(one)} is missing or has another shape")
            found[where] = self._numbers(name, part)
            covered += math.prod(part.shape)
        if covered != found.size:
            raise FormatError(f"{self.path}: {name}: its slices hold {covered} of its {found.size} numbers")
        return found

    def text(self, name: str) -> bytes:
        """A scalar of bytes."""
        entry, raw = self._of(name), memoryview(self._bytes(name, self._of(name)))
        if entry.dtype != _STRING or entry.shape:
            raise FormatError(f"{self.path}: {name} is no text")
        size, place = protobuf.varint(raw, 0, f"{self.path}: {name}")
        lengths = size.to_bytes(4 if size < 1 << 32 else 8, "little")
        stored, content = raw[place : place + 4], raw[place + 4 :]
        if len(content) != size or int.from_bytes(stored, "little") != masked_crc(lengths):
            raise FormatError(f"{self.path}: {name}: a text of {size} bytes, of which {len(content)} are there")
        if masked_crc(lengths, stored, content) != entry.crc:
            raise FormatError(f"{self.path}: {name} does not have its checksum (damaged)")
        return bytes(content)

    def _of(self, name: str) -> _Entry:
        entry = self._entries.get(name.encode())
        if entry is None:
            raise FormatError(f"{self.path}: there is no {name!r}")
        return entry

    def _entry(self, key: bytes, value: bytes) -> _Entry:
        message = protobuf.parse(value, f"{self.path}: the entry of {key[:80]!r}")
        shape = tuple(dim.signed(1) for dim in message.message(2).messages(2))
        slices = tuple(tuple(map(_extent, one.messages(1))) for one in message.messages(7))
        entry = _Entry(
            message.number(1), shape, message.number(3), message.signed(4), message.signed(5), message.number(6), slices
        )
        if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
            raise FormatError(f"{self.path}: {key[:80]!r} has the shape {list(shape)[:9]} (damaged)")
        item = np.dtype(_DTYPES[entry.dtype]).itemsize if entry.dtype in _DTYPES else 0
        if item and not slices and math.prod(shape) * item != entry.size:
            raise FormatError(f"{self.path}: {key[:80]!r} is {list(shape)} in {entry.size} bytes (damaged)")
        return entry

    def _check_places(self) -> None:
        """No byte of a shard is claimed twice, so that all arrays together are no larger than the files."""
        claims: dict[int, list[tuple[int, int]]] = {}
        for key, entry in self._entries.items():
            if not entry.slices:
                claims.setdefault(entry.shard, []).append((entry.offset, entry.size))
            elif entry.dtype in _DTYPES:
                self._check_slices(key, entry)
        for shard, places in claims.items():
            end = 0
            for offset, size in sorted(places):
                if offset < end or size < 0:
                    raise FormatError(f"{self.path}: two arrays claim byte {offset} of shard {shard} (damaged)")
                end = offset + size
            if (there := self._shard(shard).stat().st_size) < end:
                raise FormatError(f"{self._shard(shard)}: {there} bytes; the index wants {end} (truncated)")

    def _check_slices(self, key: bytes, entry: _Entry) -> None:
        name = protobuf.decoded(key, str(self.path))
        held = [self._entries.get(slice_key(name, one)) for one in entry.slices]
        if sum(math.prod(one.shape) for one in held if one is not None) < math.prod(entry.shape):
            raise FormatError(f"{self.path}: {name}: its slices do not fill its shape {list(entry.shape)[:9]}")

    def _shard(self, number: int) -> Path:
        if not 0 <= number < self._shards:
            raise FormatError(f"{self.path}: shard {number} of {self._shards} (damaged)")
        path = shard_of(self.path, number, self._shards)
        if not path.is_file():
            raise FormatError(f"{self.path}: its numbers are in {path.name}, which is not beside it")
        return path

    def _numbers(self, name: str, entry: _Entry) -> Array:
        raw = self._bytes(name, entry)
        if masked_crc(raw) != entry.crc:
            raise FormatError(f"{self.path}: {name} does not have its checksum (damaged)")
        return np.frombuffer(raw, _DTYPES[entry.dtype]).reshape(entry.shape)

    def _bytes(self, name: str, entry: _Entry) -> bytes:
        with self._shard(entry.shard).open("rb") as file:
            file.seek(entry.offset)
            raw = file.read(entry.size)
        if len(raw) != entry.size:
            raise FormatError(f"{self.path}: {name}: {len(raw)} of {entry.size} bytes are there (truncated)")
        return raw


def is_index(path: Path) -> bool:
    """Whether a file ends as an index does."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8))
        return ends_as_table(file.read(8))


def shard_of(index: Path, number: int, shards: int) -> Path:
    """The file of a shard."""
    return index.with_name(f"{index.name.removesuffix(SUFFIX)}.data-{number:05d}-of-{shards:05d}")


def bundle_bytes(arrays: Mapping[str, Array]) -> tuple[bytes, bytes]:
    """The index of a bundle and its one shard. float32, float64 and float16 are written."""
    entries = {b"": encoded(1 << 3, 1) + chunk(3, encoded(1 << 3, 1))}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(arrays, key=str.encode):
        array = arrays[name]
        parts.append(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
        shape = b"".join(chunk(2, encoded(1 << 3, extent)) for extent in array.shape)
        places = encoded(4 << 3, offset) * bool(offset) + encoded(5 << 3, len(parts[-1]))
        crc = bytes([6 << 3 | 5]) + masked_crc(parts[-1]).to_bytes(4, "little")
        entries[name.encode()] = encoded(1 << 3, _CODES[array.dtype.name]) + chunk(2, shape) + places + crc
        offset += len(parts[-1])
    return table_bytes(entries), b"".join(parts)


def _extent(message: protobuf.Message) -> tuple[int, int | None]:
    return message.signed(1), message.signed(2) if 2 in message.numbers else None


def bundle_arrays(bundle: TensorBundle) -> Iterator[tuple[str, Array]]:
    """Name and array of everything in a bundle."""
    return ((name, bundle.array(name)) for name in bundle.names)
