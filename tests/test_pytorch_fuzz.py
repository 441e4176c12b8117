"""Damaged `.pt`, legacy `.pt`, `.safetensors` and `.npz` files: a FormatError or the file's own layers, no more."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from tests.modules import module_of, torch
from tests.samples import spec_of, weights_of


def zipped(path: Path) -> None:
    torch.save(module_of("GRU", {"num_layers": 2}).state_dict(), path)


def legacy(path: Path) -> None:
    torch.save(module_of("GRU", {"num_layers": 2}).state_dict(), path, _use_new_zipfile_serialization=False)


def ours(path: Path) -> None:
    rb.save(weights_of(spec_of("gru_after", num_layers=2)), path)


FILES: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "zip": ("a.pt", "pytorch", zipped),
    "legacy": ("a.pt", "pytorch", legacy),
    "safetensors": ("a.safetensors", "safetensors", ours),
    "npz": ("a.npz", "npz", ours),
}
each_file = pytest.mark.parametrize("case", FILES)


def attempt(path: Path, content: bytes, format_name: str) -> bool:
    """Whether damaged content is read after all; any error but a FormatError goes through."""
    path.write_bytes(content)
    read = 0
    for name in (None, format_name):
        try:
            rb.load(path, format=name)
            read += 1
        except rb.FormatError as error:
            assert str(path) in str(error)  # noqa: PT017 (some are errors, some are not)
    return bool(read)


@each_file
def test_a_truncated_file_is_a_format_error(case: str, tmp_path: Path) -> None:
    name, format_name, make = FILES[case]
    make(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    ends = {*range(0, 300, 7), *range(300, len(content), 61), len(content) - 1}
    assert not any(attempt(tmp_path / name, content[:end], format_name) for end in sorted(ends))


@each_file
def test_flipped_bytes_are_a_format_error_or_other_numbers(case: str, tmp_path: Path) -> None:
    name, format_name, make = FILES[case]
    make(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    rng = np.random.default_rng(7)
    refused = 0
    for count in (1, 1, 3, 17) * 60:
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[rng.integers(0, len(content), count)] ^= rng.integers(1, 256, count).astype(np.uint8)
        refused += not attempt(tmp_path / name, damaged.tobytes(), format_name)
    assert refused > 60


@each_file
def test_flipped_bytes_where_the_structure_is(case: str, tmp_path: Path) -> None:
    """The first and last bytes hold headers, pickles and directories: each of them changed in turn."""
    name, format_name, make = FILES[case]
    make(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for place in (*range(0, 600, 2), *range(len(content) - 300, len(content), 3)):
        changed = bytes([content[place] ^ (1 << place % 8)])
        attempt(tmp_path / name, content[:place] + changed + content[place + 1 :], format_name)


@each_file
def test_random_bytes_are_a_format_error(case: str, tmp_path: Path) -> None:
    name, format_name, make = FILES[case]
    make(tmp_path / name)
    head = (tmp_path / name).read_bytes()[:64]
    rng = np.random.default_rng(11)
    for size in (0, 1, 7, 8, 9, 64, 1000, 10007):
        noise = rng.integers(0, 256, size, np.uint8).tobytes()
        assert not attempt(tmp_path / name, noise, format_name)
        assert not attempt(tmp_path / name, head + noise, format_name)


def with_pickle(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A zip file of torch.save with its pickle changed and every checksum right again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w") as after:
        for name in before.namelist():
            member = before.read(name)
            after.writestr(name, change(member) if name.endswith("data.pkl") else member)
    return buffer.getvalue()


@pytest.mark.parametrize("whole", [True, False], ids=["module", "state_dict"])
def test_changed_pickles_are_a_format_error_or_other_numbers(whole: bool, tmp_path: Path) -> None:
    """Bytes exchanged, taken out, put in and copied from elsewhere in the pickle."""
    module, rng = module_of("GRU", {"num_layers": 2}), np.random.default_rng(13)
    torch.save(module if whole else module.state_dict(), tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()

    def changed(pickled: bytes) -> bytes:
        place, source, length = (int(rng.integers(len(pickled))) for _ in range(3))
        noise = rng.integers(0, 256, 1 + length % 8, np.uint8).tobytes()
        kinds = (
            pickled[:place] + noise[:1] + pickled[place + 1 :],
            pickled[:place] + pickled[place + 1 + length % 8 :],
            pickled[:place] + noise + pickled[place:],
            pickled[:place] + pickled[source : source + length % 60] + pickled[place:],
        )
        return kinds[int(rng.integers(len(kinds)))]

    refused = sum(not attempt(tmp_path / "a.pt", with_pickle(content, changed), "pytorch") for _ in range(300))
    assert refused > 100
