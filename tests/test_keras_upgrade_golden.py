"""Whole models of Keras 2.3.1 and tf_keras, upgraded: Keras 3 opens them in safe mode, and the old outputs come out."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rnnbridge as rb
from tests.keras_models import FILES, MODELS, Recorded, check_answers, opened, relative

WITH_CODE = [path for path in FILES if path.stem == "with_code"]
PLAIN = [path for path in FILES if path not in WITH_CODE]
GOLDEN = MODELS.parent
# Layer by layer these are in test_keras_golden.py; that Keras 3 opens them whole is shown here.
OLDER = sorted(
    path
    for folder in ("keras-1.2.2", "keras-2.3.1", "tf.keras-1.15.5", "tf_keras-2.21.0")
    for path in (GOLDEN / folder).iterdir()
    if path.suffix in (".h5", ".keras") and ".weights" not in path.name
)
REFUSED = {
    "keras-2.3.1/bidirectional.h5": "go_backwards=True",
    "tf_keras-2.21.0/time_major.h5": "time_major",
}


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("path", PLAIN, ids=relative)
def test_keras_3_gives_the_old_outputs(path: Path, suffix: str, tmp_path: Path) -> None:
    target = tmp_path / f"new{suffix}"
    report = rb.convert(path, target, verify=False)
    assert report.model
    check_answers(opened("keras", target), Recorded(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", PLAIN, ids=relative)
def test_the_recorded_outputs_are_the_producers(path: Path) -> None:
    """The judge itself: the old file in tf_keras, which runs all but cuDNN layers, within the same tolerance."""
    if path.stem == "gpu_layers":
        pytest.skip("tf_keras has no kernels for cuDNN layers on a CPU")
    check_answers(opened("tf_keras", path), Recorded(path))


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("path", FILES, ids=relative)
def test_upgrading_twice_gives_the_same_bytes(path: Path, suffix: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rb.convert(path, tmp_path / f"{name}{suffix}", verify=False)
    first = (tmp_path / f"one{suffix}").read_bytes()
    assert first == (tmp_path / f"two{suffix}").read_bytes()
    rb.convert(tmp_path / f"one{suffix}", tmp_path / f"three{suffix}", verify=False)
    assert first == (tmp_path / f"three{suffix}").read_bytes()


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.relative_to(GOLDEN).as_posix())
def test_every_other_golden_model_opens_or_says_why_not(path: Path, tmp_path: Path) -> None:
    target, name = tmp_path / "new.keras", path.relative_to(GOLDEN).as_posix()
    if name in REFUSED:
        with pytest.raises(rb.RNNBridgeError, match=REFUSED[name]):
            rb.convert(path, target, verify=False)
        assert not list(tmp_path.iterdir())
        return
    report = rb.convert(path, target, verify=False)
    model = opened("keras", target)
    told = {one.name.replace("/", "_") for one in report.model}  # Keras 3 takes no slash in a name
    assert told >= {layer.name for layer in model.layers if hasattr(layer, "return_sequences")}


@pytest.mark.parametrize("path", WITH_CODE, ids=relative)
def test_code_in_a_file_is_carried_and_listed_and_never_run(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.keras"
    report = rb.convert(path, target, verify=False)
    (listed,) = [one for one in report.model if one.kind == "Lambda"]
    assert "kept as it is" in str(listed)
    with zipfile.ZipFile(target) as archive:
        config = json.loads(archive.read("config.json"))
    (kept,) = [one["config"] for one in config["config"]["layers"] if one["class_name"] == "Lambda"]
    assert kept["function"]["config"]["code"] == _lambda_of(path)["function"][0]
    with pytest.raises((ValueError, TypeError)):
        opened("keras", target)  # Keras 3's own safe mode refuses to run it


def _lambda_of(path: Path) -> Any:
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            config = json.loads(archive.read("config.json"))
    else:
        import h5py

        with h5py.File(path) as file:
            config = json.loads(file.attrs["model_config"])
    return next(one["config"] for one in config["config"]["layers"] if one["class_name"] == "Lambda")
