"""Checkpoints: a training that is broken off and goes on in another process ends in the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.files.safetensors_file import Tensor, read_safetensors, safetensors_bytes
from rnnbridge.training import SGD, Adam, Batches, CrossEntropy, EarlyStopping, Plateau
from tests.gradients import same_bits
from tests.trainings import TRAININGS, lines, train

KEY = "rnnbridge.training"
PER_EPOCH = {kind: len(make()["data"]) for kind, make in TRAININGS.items()}


def in_another_process(*arguments: object) -> None:
    command = [sys.executable, "-m", "tests.trainings", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cut", ["in an epoch", "between epochs"])
@pytest.mark.parametrize("kind", TRAININGS)
def test_two_halves_in_two_processes_are_the_whole_to_the_bit(kind: str, cut: str, tmp_path: Path) -> None:
    half = PER_EPOCH[kind] + (2 if cut == "in an epoch" else 0)
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    model, history = train(kind, checkpoint=whole, max_steps=2 * half)
    in_another_process(kind, parts, half)
    assert parts.read_bytes() != whole.read_bytes()
    in_another_process(kind, parts, 2 * half)
    assert parts.read_bytes() == whole.read_bytes()  # weights, optimiser, schedule, dropout, losses, carried state
    resumed, again = train(kind, checkpoint=parts, max_steps=2 * half, resume=True)
    assert same_bits(dict(model.weights), dict(resumed.weights))
    assert dict(history) == dict(again)


def test_a_training_that_dies_goes_on_from_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    _, history = train("classifier", checkpoint=whole)
    update = Adam.update

    def dying(self: Adam, *arguments: Any) -> None:
        if self.state and int(self.state["0.weight"]["step"]) == 11:
            raise MemoryError
        update(self, *arguments)

    monkeypatch.setattr(Adam, "update", dying)
    with pytest.raises(MemoryError):
        train("classifier", checkpoint=parts, checkpoint_every=3)
    monkeypatch.undo()
    assert len(json.loads(read_safetensors(parts).metadata[KEY])["history"]["step_loss"]) == 9
    _, again = train("classifier", checkpoint=parts, resume=True)
    assert parts.read_bytes() == whole.read_bytes()
    assert dict(again) == dict(history)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_numpys_numbers_as_settings_are_no_hindrance(tmp_path: Path) -> None:
    path, settings = tmp_path / "run", {"momentum": 0.5, "weight_decay": np.float64(0.001)}
    for epochs in (1, 2):
        optimiser = SGD(np.float32(0.01), **settings)
        _, history = train("regression", optimiser=optimiser, epochs=epochs, checkpoint=path, resume=True)
    assert history["lr"] == [float(np.float32(0.01))] * 2


def test_early_stopping_is_resumed_with_its_best_weights(tmp_path: Path) -> None:
    path, other = tmp_path / "one", tmp_path / "other"
    options: dict[str, Any] = {"schedule": None, "epochs": 12, "checkpoint": path}
    whole, history = train("classifier", early_stopping=EarlyStopping(2), optimiser=Adam(0.2), **options)
    options |= {"checkpoint": other, "resume": True}
    best = int(np.argmin(history["validation_loss"]))
    for epochs in (best + 2, 12):  # resumed after the best epoch
        options["epochs"] = epochs
        model, again = train("classifier", early_stopping=EarlyStopping(2), optimiser=Adam(0.2), **options)
    assert dict(again) == dict(history)
    assert len(history["loss"]) < 12
    assert same_bits(dict(model.weights), dict(whole.weights))


def test_a_checkpoint_is_never_overwritten_by_a_new_training(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train("regression", epochs=1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(rb.TargetExistsError, match="give resume=True to go on from it"):
        train("regression", epochs=1, checkpoint=path)
    assert path.read_bytes() == before


def test_a_finished_training_that_is_resumed_does_nothing_and_more_epochs_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    _, history = train("regression", epochs=2, checkpoint=path)
    before = path.read_bytes()
    _, again = train("regression", epochs=2, checkpoint=path, resume=True)
    assert dict(again) == dict(history)
    assert path.read_bytes() == before
    _, longer = train("regression", epochs=3, checkpoint=path, resume=True)
    assert longer["loss"][:2] == history["loss"]
    assert len(longer["loss"]) == 3


def test_the_recurrent_layers_of_a_checkpoint_are_loaded_as_any_others(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model, _ = train("classifier", epochs=1, checkpoint=path, early_stopping=None)
    weights = rb.load(path)["model/1"]
    assert same_bits(dict(weights.arrays), dict(model[1].weights))


def damaged(path: Path, **facts: Any) -> None:
    contents = read_safetensors(path)
    said = json.loads(contents.metadata[KEY])
    for name, value in facts.items():
        said.pop(name) if value is None else said.update({name: value})
    path.write_bytes(safetensors_bytes(contents.tensors, {KEY: json.dumps(said)}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimiser": SGD(0.1)}, "its optimiser is Adam, not SGD"),
        ({"schedule": Plateau()}, "its schedule is none, not Plateau"),
        ({"data": Batches(*lines(3)[:2], batch_size=2)}, "its epochs have 5 batches, not 2"),
        ({"data": Batches(*lines(3)[:2], batch_size=2, seed=7)}, "the order of its data is of seed 6, not 7"),
        ({"model": rb.LSTM(3, 5, 2, dtype="float64", batch_first=True)}, "float64 [8, 3], not float64 [20, 3]"),
        ({"model": rb.LSTM(3, 2, dtype="float64", batch_first=True)}, "model/0.weight_ih_l1 is not in the model"),
        ({"model": rb.LSTM(3, 2, 2, batch_first=True)}, "float64 [8, 3], not float32 [8, 3]"),
    ],
)
def test_the_checkpoint_of_another_training_is_refused_and_nothing_is_changed(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    train("regression", epochs=1, checkpoint=path)
    model = changes.get("model") or TRAININGS["regression"]()["model"]
    before = {name: array.copy() for name, array in model.weights.items()}
    with pytest.raises(rb.FormatError) as caught:
        train("regression", checkpoint=path, resume=True, **{**changes, "model": model})
    assert "is a checkpoint of another training" in str(caught.value)
    assert said in str(caught.value)
    assert same_bits(before, dict(model.weights))


def test_a_frozen_layer_is_not_written_to_from_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    train("classifier", epochs=1, checkpoint=path)
    model = TRAININGS["classifier"]()["model"]
    model[0].freeze()
    with pytest.raises(rb.FormatError, match=r"model/0\.weight has other numbers, and is frozen here"):
        train("classifier", model=model, checkpoint=path, resume=True)


@pytest.mark.parametrize(
    ("damage", "error", "said"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:-9]), rb.FormatError, "truncated"),
        (lambda p: p.write_bytes(b"nonsense"), rb.FormatError, "no safetensors file"),
        (lambda p: damaged(p, version=2), rb.FormatError, "of version 2; this rnnbridge reads version 1"),
        (lambda p: damaged(p, history=None), rb.FormatError, "without history"),
        (lambda p: damaged(p, history=3), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, dropout={"0": 7}), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, dropout={"0": [1, 2, 3]}), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, dropout={"0": [1, -2]}), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, state="x"), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, epoch=-1), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, epoch="1"), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, batch=10**9), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, count=1.5), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, total="much"), rb.FormatError, "damaged checkpoint"),
        (lambda p: damaged(p, history={"step_loss": [1.0]}), rb.FormatError, "but a history of"),
        (
            lambda p: p.write_bytes(safetensors_bytes({"a": Tensor("float32", np.zeros(3, "f"))}, {})),
            rb.FormatError,
            "is a safetensors file, but no checkpoint",
        ),
        (lambda p: (p.unlink(), p.mkdir()), rb.FileAccessError, "cannot read"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_nothing_is_changed(
    damage: Any, error: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    train("regression", epochs=1, checkpoint=path)
    damage(path)
    options = TRAININGS["regression"]()
    before = {name: array.copy() for name, array in options["model"].weights.items()}
    with pytest.raises(error) as caught:
        train("regression", model=options["model"], checkpoint=path, resume=True)
    assert said in str(caught.value)
    assert same_bits(before, dict(options["model"].weights))


def test_a_training_that_could_not_begin_leaves_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(rb.ArgumentError):
        train("regression", loss=CrossEntropy(), checkpoint=path)
    assert not list(tmp_path.iterdir())
    train("regression", epochs=1, checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_is_said_before_the_training(tmp_path: Path) -> None:
    options = TRAININGS["regression"]()
    with pytest.raises(rb.FileAccessError, match="cannot write"):
        train("regression", model=options["model"], checkpoint=tmp_path / "nowhere" / "run.safetensors")
    assert same_bits(dict(options["model"].weights), dict(TRAININGS["regression"]()["model"].weights))
