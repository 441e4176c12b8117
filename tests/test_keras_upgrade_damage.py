"""Odd and hostile whole-model files: the error names the place, and nothing is written."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

import rnnbridge as rb
from tests.keras_models import MODELS

H5 = MODELS / "keras-2.3.1" / "masked.h5"
ARCHIVE = MODELS / "tf_keras-2.21.0" / "masked.keras"
Entry = dict[str, Any]


def layer(config: Entry, name: str) -> Entry:
    return next(one for one in config["config"]["layers"] if one["config"]["name"] == name)


def changed(tmp_path: Path, change: Callable[[h5py.File], None]) -> Path:
    path = Path(shutil.copy(H5, tmp_path / "old.h5"))
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def with_config(tmp_path: Path, change: Callable[[Entry], None]) -> Path:
    def edit(file: h5py.File) -> None:
        config = json.loads(file.attrs["model_config"])
        change(config)
        del file.attrs["model_config"]
        file.attrs["model_config"] = json.dumps(config)

    return changed(tmp_path, edit)


def refused(path: Path, *said: str, suffix: str = ".keras") -> None:
    """Converting raises an error of rnnbridge's own that says all this; there is no target and nothing beside it."""
    before = sorted(path.parent.iterdir())
    with pytest.raises(rb.RNNBridgeError) as caught:
        rb.convert(path, path.parent / f"new{suffix}", verify=False)
    for word in said:
        assert word in str(caught.value)
    assert sorted(path.parent.iterdir()) == before


def test_an_array_that_is_missing(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["model_weights/lstm/lstm/recurrent_kernel:0"]

    refused(changed(tmp_path, change), "layer 'lstm'", "recurrent_kernel:0")


def test_a_layer_whose_arrays_are_missing(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        names = [name for name in file["model_weights"].attrs["layer_names"] if bytes(name) != b"gru"]
        file["model_weights"].attrs["layer_names"] = names

    refused(changed(tmp_path, change), "layer 'gru'", "no weights")


def test_a_layer_of_dense_whose_arrays_are_missing(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        file["model_weights/every"].attrs["weight_names"] = [b"every/kernel:0"]

    refused(changed(tmp_path, change), "every")


def test_arrays_that_no_layer_of_the_config_has(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        group = file["model_weights"]
        group.attrs["layer_names"] = [*group.attrs["layer_names"], b"stranger"]
        group.create_group("stranger").attrs["weight_names"] = [b"stranger/kernel:0"]
        group["stranger/stranger/kernel:0"] = [[1.0, 2.0]]

    refused(changed(tmp_path, change), "stranger")


def test_two_layers_of_one_name(tmp_path: Path) -> None:
    refused(with_config(tmp_path, lambda config: config["config"]["layers"].append(layer(config, "lstm"))), "lstm")


@pytest.mark.parametrize("version", ["0.3.1", "4.0.0", "later"])
def test_a_version_that_is_not_known(version: str, tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        for group in (file, file["model_weights"]):
            group.attrs["keras_version"] = version

    refused(changed(tmp_path, change), version)


@pytest.mark.parametrize("source", [H5, ARCHIVE], ids=["h5", "keras"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_a_file_that_ends_too_early(source: Path, part: float, tmp_path: Path) -> None:
    path = tmp_path / f"old{source.suffix}"
    content = source.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    refused(path, "old")


def test_a_config_of_megabytes(tmp_path: Path) -> None:
    """Long, but a model: it is carried, and comes out as long."""
    text = "x" * 5_000_000
    path = with_config(tmp_path, lambda config: layer(config, "lstm")["config"].update(kernel_regularizer=text))
    rb.convert(path, tmp_path / "new.keras", verify=False)
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        assert text in archive.read("config.json").decode()


def test_a_config_that_nests_too_deep(tmp_path: Path) -> None:
    def change(config: Entry) -> None:
        one = layer(config, "every")
        for _ in range(50):
            one["config"]["layer"] = {"class_name": "TimeDistributed", "config": {**one["config"], "name": "deep"}}
            one = one["config"]["layer"]

    refused(with_config(tmp_path, change), "nests too deep")


def test_text_that_nests_too_deep(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        del file.attrs["model_config"]
        file.attrs["model_config"] = "[" * 100_000

    refused(changed(tmp_path, change), "model_config")


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(("calls", "said"), [
    ([[["masking"]]], "layer 'lstm'"), (7, "layer 'lstm'"), ([[["nobody", 0, 0, {}]]], "nobody"),
    ([[[3, 0, 0, {}]]], "lstm"),
])  # fmt: skip
def test_calls_that_are_none(calls: Any, said: str, suffix: str, tmp_path: Path) -> None:
    path = with_config(tmp_path, lambda config: layer(config, "lstm").update(inbound_nodes=calls))
    refused(path, said, suffix=suffix)


@pytest.mark.parametrize("ends", [None, 3, [["nobody", 0, 0]], {"a": 1}])
def test_outputs_that_are_none(ends: Any, tmp_path: Path) -> None:
    refused(with_config(tmp_path, lambda config: config["config"].update(output_layers=ends)), "output")


@pytest.mark.parametrize(("name", "value"), [
    ("dropout", {"class_name": "os.system", "config": "true"}),
    ("kernel_initializer", {"module": "os", "class_name": "system"}),
])  # fmt: skip
def test_a_class_that_a_setting_names_is_never_imported(name: str, value: Any, tmp_path: Path) -> None:
    path = with_config(tmp_path, lambda config: layer(config, "lstm")["config"].update({name: value}))
    rb.convert(path, tmp_path / "new.keras", verify=False)
    with zipfile.ZipFile(tmp_path / "new.keras") as archive:
        assert layer(json.loads(archive.read("config.json")), "lstm")["config"][name] == value


def test_a_keyword_that_keras_3_has_not_is_named(tmp_path: Path) -> None:
    path = with_config(tmp_path, lambda config: layer(config, "lstm")["config"].update(time_major=True))
    refused(path, "lstm", "time_major")
    path = with_config(tmp_path, lambda config: layer(config, "drop")["config"].update(speed=3))
    refused(path, "drop", "speed")
