"""What `fit` and `train_step` refuse, before anything is trained or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.training import (
    MSE,
    Adam,
    Batches,
    CrossEntropy,
    EarlyStopping,
    LastStep,
    Linear,
    LossValue,
    Sequential,
    Windows,
    fit,
    train_step,
)
from tests.trainings import lines, train


def frozen(layer: Any) -> Any:
    layer.freeze()
    return layer


X, Y, LENGTHS = lines(5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Batches(X, Y[:3], batch_size=2), "x has 5 samples and y 3"),
        (lambda: Batches(X[:0], Y[:0], batch_size=2), "x has 0 samples"),
        (lambda: Batches(X, Y, LENGTHS[:2], batch_size=2), "one whole number per sequence, [5]"),
        (lambda: Batches(X, Y, [1, 2, 3, 4, 8], batch_size=2), "lengths go from 1 to 8; they are 0 to T = 7"),
        (lambda: Batches(X, Y, [1, 2, -3, 4, 5], batch_size=2), "lengths go from -3 to 5"),
        (lambda: Batches(X, list(Y), batch_size=2), "y is a list; it is a NumPy array"),
        (lambda: Batches(X, Y, batch_size=0), "batch_size is 0"),
        (lambda: Windows(X[0], batch_size=7, steps=2), "6 steps with a target are too few for 7 streams"),
        (lambda: Windows(X[0], X[1, :3], batch_size=1, steps=2), "x has 7 steps and y 3"),
        (lambda: Windows(X[0], batch_size=1, steps=0), "steps is 0"),
        (lambda: EarlyStopping(0), "patience is 0"),
        (lambda: train("regression", early_stopping=EarlyStopping()), "give validation= too"),
        (lambda: train("regression", checkpoint_every=3), "checkpoint_every was given without a checkpoint"),
        (lambda: train("regression", clip_norm=-1), "clip_norm is -1"),
        (lambda: train("regression", epochs=1.5), "epochs is 1.5"),
        (lambda: train("regression", max_steps=-1), "max_steps is -1"),
        (lambda: train("regression", checkpoint=3), "checkpoint is 3; it is the name of a file"),
        (lambda: train("regression", checkpoint=""), "checkpoint is ''; it is the name of a file"),
        (lambda: train("regression", model=frozen(rb.LSTM(3, 2, batch_first=True))), "nothing to learn"),
        (lambda: train("regression", model=LastStep()), "nothing to learn"),
        (
            lambda: train(
                "classifier", data=Windows(X[0], batch_size=1, steps=2), validation=None, early_stopping=None
            ),
            "layer 1 is bidirectional, and the data hand the state on",
        ),
        (lambda: train("regression", model=rb.LSTM(3, 2)), "give the layer batch_first=True"),
        (lambda: train("regression", loss=lambda y, *_: LossValue(1.0, y.swapaxes(0, 1), 1)), "it has the form of y"),
        (lambda: train("regression", loss=lambda y, *_: LossValue(1.0, y.astype("f"), 1)), "a dy that is float32"),
        (lambda: train("regression", loss=CrossEntropy()), "is float64 [7, 5, 2] for y [7, 5, 2]; it is whole"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, said: str) -> None:
    with pytest.raises(rb.ArgumentError) as caught:
        call()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": np.ones((3, 5))}, "data is a ndarray; it is Batches"),
        ({"data": None}, "data is a NoneType"),
        ({"validation": [1]}, "validation is a list; it is Batches"),
        ({"loss": "ce"}, "loss is 'ce'; it is CrossEntropy"),
        ({"loss": MSE}, "loss is <class"),
        ({"loss": lambda *_: 1.0}, "what the loss gave is a float; it is a LossValue"),
        ({"optimiser": "adam"}, "optimiser is a str; it is a Optimiser"),
        ({"optimiser": Adam}, r"optimiser is the class Adam itself; it is an object: Adam\("),
        ({"schedule": 0.5}, "schedule is a float; it is a Schedule"),
    ],
)
def test_parts_of_another_kind_are_refused(change: dict[str, Any], said: str) -> None:
    rng = np.random.default_rng(1)
    data = Batches(rng.standard_normal((5, 7, 3)).astype("f"), rng.standard_normal((5, 7, 2)).astype("f"), batch_size=2)
    parts = {"data": data, "loss": MSE(), "optimiser": Adam(1e-3)} | change
    with pytest.raises(rb.ArgumentError, match=said):
        fit(Sequential(Linear(3, 2, seed=1)), **parts)


def test_a_step_takes_a_batch() -> None:
    with pytest.raises(rb.ArgumentError, match="batch is a tuple; it is a Batch"):
        train_step(Sequential(Linear(3, 2)), (X, Y), loss=MSE(), optimiser=Adam())


def test_an_optimiser_that_trained_another_model_is_refused_before_anything_is_written() -> None:
    optimiser = Adam(1e-3)
    optimiser.update({"w": np.ones((3, 5), "f")}, {"w": np.ones((3, 5), "f")})
    weights = {"v": np.ones(3, "f"), "w": np.ones((2, 7), "f")}
    with pytest.raises(rb.ArgumentError, match="it trained another model; make a new one"):
        optimiser.update(weights, {name: np.ones_like(array) for name, array in weights.items()})
    assert all((array == 1).all() for array in weights.values())


def test_one_layer_in_two_places_is_refused() -> None:
    layer = Linear(3, 3, seed=1)
    with pytest.raises(rb.ArgumentError, match="a layer is there twice"):
        Sequential(layer, Sequential(layer))
