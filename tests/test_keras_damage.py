"""Keras files that are damaged or dangerous: refused by name, and nothing else is opened or filled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files.hdf5 import read_hdf5
from tests.keras_files import GOLDEN, cell, rng, weights_file

EVERY_KIND = [
    GOLDEN / "keras-2.3.1" / "cudnn_nested.h5",
    GOLDEN / "keras-2.3.1" / "gru.weights.h5",
    GOLDEN / "keras-3.15.1" / "nested.keras",
    GOLDEN / "keras-3.15.1" / "mixed.weights.h5",
]


@pytest.mark.parametrize("source", EVERY_KIND, ids=lambda path: path.name)
def test_every_truncation_is_a_format_error(source: Path, tmp_path: Path) -> None:
    content = source.read_bytes()
    for size in [1, 7, 8, 9, 64, 511, *range(1000, len(content), max(len(content) // 23, 1)), len(content) - 1]:
        path = tmp_path / f"cut{source.suffix}"
        path.write_bytes(content[:size])
        with pytest.raises(rb.FormatError, match="cut"):
            rb.load(path, format="keras")


@pytest.mark.parametrize("source", EVERY_KIND, ids=lambda path: path.name)
def test_random_bytes_inside_are_read_or_refused(source: Path, tmp_path: Path) -> None:
    content, random, refused = source.read_bytes(), rng(), 0
    path = tmp_path / f"flipped{source.suffix}"
    for _ in range(60):
        damaged = bytearray(content)
        for place in random.integers(0, min(len(content), 4096), 4):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            rb.load(path, format="keras")
        except rb.FormatError:
            refused += 1
    assert refused


@pytest.mark.parametrize("head", [b"", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"])
def test_noise_is_a_format_error(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "noise.h5"
    path.write_bytes(head + rng().bytes(5000))
    with pytest.raises(rb.FormatError, match=r"noise\.h5"):
        rb.load(path, format="keras")


def linked_outside(file: h5py.File, elsewhere: str) -> None:
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"]["lstm/kernel:0"] = h5py.ExternalLink(elsewhere, "/secret")


def stored_outside(file: h5py.File, elsewhere: str) -> None:
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"].create_dataset("lstm/kernel:0", (5, 12), "float32", external=[(elsewhere, 0, 240)])


def virtual(file: h5py.File, elsewhere: str) -> None:
    layout = h5py.VirtualLayout((5, 12), "float32")
    layout[:] = h5py.VirtualSource(elsewhere, "secret", (5, 12))
    del file["lstm"]["lstm/kernel:0"]
    file["lstm"].create_virtual_dataset("lstm/kernel:0", layout)


def endless(file: h5py.File, elsewhere: str) -> None:
    file["lstm"]["again"] = file["lstm"]


def huge(file: h5py.File, elsewhere: str) -> None:
    file.create_dataset("huge", (1 << 40,), "float32", chunks=(1 << 20,))


@pytest.mark.parametrize(("change", "word"), [
    (linked_outside, "link to somewhere else"), (stored_outside, "lie in another file"),
    (virtual, "lie in another file"), (endless, "contains itself"), (huge, "more than the file can hold"),
])  # fmt: skip
def test_a_file_never_makes_us_open_another_or_run_out(
    change: Callable[[h5py.File, str], None], word: str, tmp_path: Path
) -> None:
    path = weights_file(tmp_path / "trap.h5", {"lstm": cell("lstm", 5, 3, 4, (12,))})
    elsewhere = tmp_path / "elsewhere.h5"
    with h5py.File(elsewhere, "w") as file:
        file["secret"] = np.ones((5, 12), "float32")
    with h5py.File(path, "r+") as file:
        change(file, str(elsewhere))
    with pytest.raises(rb.FormatError, match=word):
        rb.load(path)


@pytest.mark.parametrize("factor", [2, 1 << 18])
def test_a_text_that_claims_to_be_longer_than_it_is(factor: int, tmp_path: Path) -> None:
    """The C library believes such a length: it reads beyond the text, or for ten seconds."""
    content = EVERY_KIND[0].read_bytes()
    with h5py.File(EVERY_KIND[0]) as file:
        length = len(file.attrs["model_config"])
    at = content.index(length.to_bytes(4, "little"), content.index(b"model_config"))
    path = tmp_path / "longer.h5"
    path.write_bytes(content[:at] + (length * factor).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(rb.FormatError, match=r"longer\.h5.*is not in the heap"):
        rb.load(path)


@pytest.mark.parametrize("newest", [False, True])
def test_text_attributes_of_every_form(newest: bool, tmp_path: Path) -> None:
    """Old and new object headers, one text and many, more than one block of attributes."""
    few_or_many = (
        4 if newest else 40
    )  # more than eight move elsewhere in the newest form, which nobody writes for Keras
    given: dict[str, Any] = {f"a{k}": "x" * 41 * k for k in range(few_or_many)} | {"list": ["one", "", "zwölf"]}
    with h5py.File(tmp_path / "texts.h5", "w", libver="latest" if newest else None) as file:
        for key, value in given.items():
            file.attrs[key] = value
    read = read_hdf5(tmp_path / "texts.h5", "texts").attrs
    assert read == {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


def test_wrong_shapes_name_the_layer_and_the_array(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "odd.h5", {"encoder": cell("encoder", 5, 3, 4, (13,))})
    with pytest.raises(rb.FormatError, match=r"odd\.h5: layer 'encoder': .*bias.*13"):
        rb.load(path)


def test_a_listed_array_that_is_missing(tmp_path: Path) -> None:
    path = weights_file(tmp_path / "gap.h5", {"gru": cell("gru", 5, 3, 3, (9,))})
    with h5py.File(path, "r+") as file:
        del file["gru/gru/bias:0"]
    with pytest.raises(
        rb.FormatError, match="'gru': its array 'gru/bias:0' is listed in weight_names and is not there"
    ):
        rb.load(path)


def test_an_archive_without_its_config(tmp_path: Path) -> None:
    path = tmp_path / "half.keras"
    with zipfile.ZipFile(GOLDEN / "keras-3.15.1" / "mixed.keras") as whole, zipfile.ZipFile(path, "w") as half:
        half.writestr("model.weights.h5", whole.read("model.weights.h5"))
    with pytest.raises(rb.FormatError, match=r"half\.keras: the archive has no metadata\.json, config\.json among"):
        rb.load(path, format="keras")


def test_an_archive_with_a_member_twice(tmp_path: Path) -> None:
    """Which of the two a reader takes is chance, so two programs would see two models."""
    path = tmp_path / "twice.keras"
    path.write_bytes((GOLDEN / "keras-3.15.1" / "mixed.keras").read_bytes())
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("config.json", "{}")
    with pytest.raises(rb.FormatError, match=r"twice\.keras: the archive has 'config\.json' more than once"):
        rb.load(path, format="keras")
