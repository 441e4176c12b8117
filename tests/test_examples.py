"""The examples that train, cut short: each ends in a picture and beats what it is compared with. And what the documents
show of training runs as it stands there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
RUN = "import json, sys, {name}; print(json.dumps({name}.main(sys.argv[1:])))"


def numbers_of(name: str, folder: Path, *arguments: object) -> dict[str, float]:
    """What the example's main returns; it is run beside its picture, in a process of its own."""
    picture = folder / "picture.png"
    command = [sys.executable, "-c", RUN.format(name=name), str(picture), *map(str, arguments)]
    path = os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    if HAS_MATPLOTLIB:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert str(picture) in done.stdout
    else:
        assert "pip install 'rnnbridge[plot]'" in done.stdout
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_language_model_needs_fewer_bits_than_pairs_of_characters(tmp_path: Path) -> None:
    bits = numbers_of("char_language_model", tmp_path, "--epochs", 1, "--hidden", 96)
    assert bits["1-gram"] > bits["2-gram"] > bits["3-gram"] > bits["5-gram"]
    assert bits["LSTM"] < bits["2-gram"] - 0.1


@pytest.mark.slow
def test_the_forecast_is_better_than_the_naive_ones(tmp_path: Path) -> None:
    errors = numbers_of("forecast", tmp_path, "--epochs", 12)
    assert errors["GRU"] < 0.9 * min(error for name, error in errors.items() if name != "GRU")


@pytest.mark.slow
def test_the_classifier_reads_more_than_the_counts_of_characters(tmp_path: Path) -> None:
    shares = numbers_of("classify_lengths", tmp_path, "--epochs", 4, "--lines", 9000)
    assert shares["GRU"] > shares["naive Bayes"] + 0.03 > 1 / 3 + 0.03


@pytest.mark.slow
def test_the_gpu_model_learns_the_new_forms_and_keras_runs_it(tmp_path: Path) -> None:
    shares = numbers_of("finetune_keras_gpu", tmp_path, "--epochs", 1, "--folder", tmp_path / "files")
    assert shares["new before"] < 0.7
    assert shares["new after"] > 0.95
    assert shares["old after"] > 0.98 * shares["old before"]
    assert {path.name for path in (tmp_path / "files").iterdir()} == {"finetuned.h5", "finetuned_gpu.h5"}
    if importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed, so it did not run finetuned.h5")
    # 17 steps through three layers, float32 on both sides: probabilities of at most 1, each step adds some roundings.
    assert shares["keras error"] <= 3 * 17 * 8 * np.finfo("f").eps


@pytest.mark.parametrize("document", ["README.md", "docs/training.md"])
def test_what_a_document_shows_of_training_runs(document: str, tmp_path: Path) -> None:
    text = (EXAMPLES.parent / document).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = "\n".join(block for block in blocks if "rnnbridge.training" in block or "net.forward" in block)
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<History of ")
