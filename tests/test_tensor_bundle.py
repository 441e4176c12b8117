"""The parts of TensorFlow's bundles, each against its definition; whole files are judged in test_tensorflow*.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files import protobuf
from rnnbridge.files.crc32c import crc32c, masked_crc
from rnnbridge.files.ordered_code import slice_key
from rnnbridge.files.snappy import unpacked
from rnnbridge.files.sorted_table import read_table, table_bytes
from rnnbridge.files.tensor_bundle import TensorBundle, bundle_bytes, shard_of


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4, and its vectors of 32 bytes
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert masked_crc(b"123456789") == (((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 10007])
def test_a_checksum_in_parts_is_that_of_the_whole(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    slowly = 0
    for byte in data:
        slowly = crc32c(bytes([byte]), slowly)
    assert crc32c(data) == slowly
    assert crc32c(data[5:], crc32c(data[:5])) == slowly


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"\x05\x00", "should give 5 give 1|1 bytes should follow"),
        (b"\x05\x10abcd", "5 bytes should follow"),
        (b"\xff\xff\xff\x7f\x00a", "cannot hold"),
        (b"\x04\x00a\x01\x00", "a copy from 0 back"),
        (b"\x04\x00a\x01\x02", "a copy from 2 back"),
        (b"\x05\x00a\x05\x01\x00b", "that should give 5 give 6"),
        (b"\x04\x00a\x02", "a copy from 0 back"),
        (b"\xff", "without an end"),
    ],
)
def test_damaged_snappy_is_refused(packed: bytes, message: str) -> None:
    with pytest.raises(rb.FormatError, match=message):
        unpacked(memoryview(packed), "here")


def test_snappy_literals_and_copies_of_every_width() -> None:
    long = bytes(range(100)) * 3
    packed = b"".join((
        protobuf.encoded(len(long) + 4 + 5 + 7),
        bytes([60 << 2, 99]) + long[:100],  # a literal whose size stands in a byte of its own
        bytes([63 << 2 | 2, 100, 0]) * 3, bytes([7 << 2 | 2, 100, 0]),  # copies with two bytes of offset
        bytes([0 << 2 | 1, 4]), bytes([1 << 2 | 1, 1]),  # with one, the second of them over its own bytes
        bytes([6 << 2 | 3, 100, 0, 0, 0]),  # with four
    ))  # fmt: skip
    found = unpacked(memoryview(packed), "here")
    assert found[:300] == long
    assert found[300:304] == long[-4:]
    assert found[304:309] == long[-1:] * 5
    assert found[309:] == found[209:216]


def test_slices_have_the_keys_of_orderedcode() -> None:
    """Written out from core/lib/strings/ordered_code.cc: a count, a text, a count, and signed numbers."""
    assert slice_key("a", [(0, None), (3, 7)]) == b"\x00" + b"a\0\1" + b"\x01\x02" + b"\x80\x7f" + b"\x83\x87"
    assert slice_key("\0", [(64, 8191)]) == b"\x00" + b"\0\xff\0\1" + b"\x01\x01" + b"\xc0\x40" + b"\xdf\xff"
    assert slice_key("", [(8192, 1 << 40)])[5:] == b"\xe0\x20\x00" + b"\xfd\x00\x00\x00\x00\x00"


def test_tables_come_back_and_keys_are_in_order() -> None:
    held = {b"": b"head", b"a/b": b"", b"a/c": b"x" * 300}
    content = table_bytes(held)
    assert read_table(content, "here") == held
    refused = 0
    for place in range(len(content) - 48):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        try:
            assert read_table(changed, "here") == held  # its second index, which is empty, is not looked at
        except rb.FormatError as error:
            assert "here" in str(error)  # noqa: PT017 (some are errors, some are not)
            refused += 1
    assert refused > len(content) - 48 - 14


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    index, shard = bundle_bytes(arrays)
    path = folder / "a.ckpt.index"
    path.write_bytes(index)
    shard_of(path, 0, 1).write_bytes(shard)
    return path


ARRAYS = {"b/w": np.arange(35, dtype=np.float32).reshape(5, 7), "a": np.float64(2) + np.zeros(3), "h": np.float16([1])}


def test_bundles_come_back(tmp_path: Path) -> None:
    bundle = TensorBundle(saved(tmp_path, ARRAYS))
    assert bundle.names == ("a", "b/w", "h")
    assert all(np.array_equal(bundle.array(name), array) for name, array in ARRAYS.items())
    assert all(bundle.array(name).dtype == array.dtype for name, array in ARRAYS.items())


def test_shards_that_are_missing_short_or_changed_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, ARRAYS)
    shard = shard_of(path, 0, 1)
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    with pytest.raises(rb.FormatError, match=r"a\.ckpt\.data-00000-of-00001: 165 bytes; the index wants 166"):
        TensorBundle(path)
    shard.write_bytes(content[:-1] + b"\xff")
    with pytest.raises(rb.FormatError, match="h does not have its checksum"):
        TensorBundle(path).array("h")
    shard.unlink()
    with pytest.raises(rb.FormatError, match="which is not beside it"):
        TensorBundle(path)


def entry(*fields: bytes) -> bytes:
    return protobuf.encoded(1 << 3, 1) + b"".join(fields)


def whole(field: int, number: int) -> bytes:
    return protobuf.encoded(field << 3, number)


def shape(*extents: int) -> bytes:
    return protobuf.chunk(2, b"".join(protobuf.chunk(2, whole(1, one)) for one in extents))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({b"a": entry(shape(2), whole(5, 8)), b"b": entry(shape(2), whole(4, 4), whole(5, 8))}, "two arrays claim"),
        ({b"a": entry(shape(1 << 40), whole(5, 8))}, "in 8 bytes"),
        ({b"a": entry(shape(-1), whole(5, 8))}, "has the shape"),
        ({b"a": entry(shape(2), whole(5, 8), whole(4, -8))}, "two arrays claim byte -8"),
        ({b"a": entry(shape(2), whole(5, 8), whole(3, 7))}, "shard 7 of 1"),
        ({b"a": entry(shape(1 << 40), protobuf.chunk(7, protobuf.chunk(1, b"")))}, "do not fill its shape"),
        ({b"a": b"\x07"}, "wire type 7"),
    ],
)
def test_claims_that_the_files_cannot_meet_are_refused(
    entries: dict[bytes, bytes], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.index"
    path.write_bytes(table_bytes({b"": whole(1, 1), **entries}))
    shard_of(path, 0, 1).write_bytes(bytes(64))
    with pytest.raises(rb.FormatError, match=message) as caught:
        TensorBundle(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("header", "message"), [(b"", "0 shards"), (whole(1, 1) + whole(2, 1), "big-endian")])
def test_other_tables_are_no_bundles(header: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.index").write_bytes(table_bytes({b"": header}))
    with pytest.raises(rb.FormatError, match=message):
        TensorBundle(tmp_path / "a.index")
