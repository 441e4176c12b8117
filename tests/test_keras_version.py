"""The version of Keras that wrote a file or that the user sets: one that is not known is refused, never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pytest

import rnnbridge as rb
from tests.keras_files import cell, weights_file


@pytest.mark.parametrize("version", ["4.0", "10.2", "0", "x", "latest-2", ""])
def test_a_file_of_a_keras_that_is_not_known(version: str, tmp_path: Path) -> None:
    path = weights_file(tmp_path / "new.h5", {"lstm": cell("lstm", 5, 3, 4, (12,))}, version)
    if version:
        with pytest.raises(rb.FormatError) as caught:
            rb.load(path)
        for said in ("new.h5: layer 'lstm'", f"keras_version={version!r}", "1, 2 and 3", "--set keras_version=3"):
            assert said in str(caught.value)
    asked = rb.load(path, settings={"keras_version": "3"})
    assert asked["lstm"].origin.convention == "keras.LSTM@3"
    rb.save(asked, tmp_path / "again.h5")
    assert rb.load(tmp_path / "again.h5")["lstm"] == asked["lstm"]


@pytest.mark.parametrize("version", [4, ["3", "2"]])
def test_a_version_that_is_no_text(version: Any, tmp_path: Path) -> None:
    path = weights_file(tmp_path / "odd.h5", {"lstm": cell("lstm", 5, 3, 4, (12,))})
    with h5py.File(path, "r+") as file:
        file.attrs["keras_version"] = version
    with pytest.raises(rb.FormatError, match="the file says keras_version="):
        rb.load(path)


@pytest.mark.parametrize("version", ["4.0", "10.2", "0", "x", "", "latest"])
def test_a_version_is_set_that_is_not_known(version: str, tmp_path: Path) -> None:
    path = weights_file(tmp_path / "w.h5", {"lstm": cell("lstm", 5, 3, 4, (12,))})
    for act in (
        lambda: rb.load(path, settings={"keras_version": version}),
        lambda: rb.save(rb.load(path), tmp_path / "out.h5", settings={"keras_version": version}),
    ):
        with pytest.raises(rb.ArgumentError, match="versions 1, 2 and 3 are read"):
            act()
