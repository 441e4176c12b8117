"""Golden whole models for the tests: what goes in, what came out, and how far a correct run may lie from it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnbridge.proof.tolerance import FACTOR

MODELS = Path(__file__).parent / "golden" / "models"
FILES = [path for path in sorted(MODELS.glob("*/*")) if path.suffix in (".h5", ".keras")]
# Bidirectional of Keras 2.3.1 repeats its last output past a length; those of tf_keras and Keras 3 give zeros there.
REPEATS = {"keras-2.3.1/both_ways.h5": (0, 1)}
EPS = float(np.finfo(np.float32).eps)
DRAWS = 5


def keras_named(package: str) -> Any:
    """Keras 3 or tf_keras, or a skip that says what is missing."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(package, reason=f"{package} is not installed, so it cannot open what was written")


def opened(package: str, path: Path) -> Any:
    """The model as `load_model` gives it: no custom objects, and in safe mode, which is Keras 3's default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return keras_named(package).models.load_model(str(path), compile=False)


def saved(model: Any, path: Path) -> Path:
    """The file of a model, by its own Keras, which meets warnings of NumPy on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(str(path))
    return path


def relative(path: Path) -> str:
    return path.relative_to(MODELS).as_posix()


class Recorded:
    """The arrays beside a golden model: `inputs`, and `batches`, one list of outputs or two for kept states."""

    def __init__(self, path: Path) -> None:
        with np.load(path.parent / f"{path.stem}.model.npz") as arrays:
            self._arrays = dict(arrays)
        self.inputs = self._all("x")
        self.batches = [outputs for outputs in (self._all("y"), self._all("again")) if outputs]
        self.valid = self._valid(path)

    def _all(self, what: str) -> list[Any]:
        return [self._arrays[f"{what}{k}"] for k in range(len(self._arrays)) if f"{what}{k}" in self._arrays]

    def _valid(self, path: Path) -> dict[int, Any]:
        """Output number -> the steps to be compared, [N, T, 1], where the rest is the version's own padding."""
        seen = (self.inputs[0] != 0.5).any(-1, keepdims=True) if relative(path) in REPEATS else None
        return dict.fromkeys(REPEATS.get(relative(path), ()), seen)


def answers(model: Any, inputs: list[Any], batches: int = 1) -> list[list[Any]]:
    """What a model gives, batch after batch, from its first state."""
    for layer in layers_in(model):
        if getattr(layer, "stateful", False) and hasattr(layer, "cell"):
            getattr(layer, "reset_state", getattr(layer, "reset_states", None))()
    given = inputs if len(inputs) > 1 else inputs[0]
    return [[np.asarray(one) for one in _flat(model.predict_on_batch(given))] for _ in range(batches)]


def layers_in(model: Any) -> list[Any]:
    """Every layer of a model, those of nested models too."""
    return [one for layer in model.layers for one in (layers_in(layer) if hasattr(layer, "layers") else [layer])]


def allowed(model: Any, inputs: list[Any], batches: int = 1) -> list[list[float]]:
    """How far a correct float32 run may lie from each output: a few times what one rounding of the weights does to it,
    as `rnnbridge.proof.tolerance` allows a layer a few times what plain arithmetic does."""
    weights, rng = model.get_weights(), np.random.default_rng(11)
    plain = answers(model, inputs, batches)
    moved = [[EPS * np.abs(one).max(initial=0.0) for one in batch] for batch in plain]
    for _ in range(DRAWS):
        model.set_weights([one * (1 + EPS * rng.choice([-1, 1], one.shape)).astype(one.dtype) for one in weights])
        for have, batch, rough in zip(moved, plain, answers(model, inputs, batches), strict=True):
            have[:] = [max(m, np.abs(a - b).max(initial=0.0)) for m, a, b in zip(have, batch, rough, strict=True)]
    model.set_weights(weights)
    return [[FACTOR * one for one in batch] for batch in moved]


def check_answers(model: Any, recorded: Recorded) -> None:
    """The model gives what was recorded, in every output of every batch."""
    got = answers(model, recorded.inputs, len(recorded.batches))
    limits = allowed(model, recorded.inputs, len(recorded.batches))
    for number, (batch, want) in enumerate(zip(got, recorded.batches, strict=True)):
        assert [one.shape for one in batch] == [one.shape for one in want]
        for k, (ours, theirs) in enumerate(zip(batch, want, strict=True)):
            apart = np.abs(ours - theirs) * recorded.valid.get(k, True)
            assert apart.max() <= limits[number][k], (number, k, float(apart.max()), limits[number][k])


def _flat(answer: Any) -> list[Any]:
    if isinstance(answer, (list, tuple)):
        return [one for part in answer for one in _flat(part)]
    return [answer]
