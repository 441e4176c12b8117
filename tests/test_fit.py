"""Training whole models: that they learn, the same way every time, and what fit's options do."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.training import (
    MSE,
    SGD,
    Adam,
    Batch,
    Batches,
    CrossEntropy,
    EarlyStopping,
    Embedding,
    Linear,
    LossValue,
    Plateau,
    Sequential,
    Windows,
    evaluate,
    fit,
    train_step,
)
from tests.gradients import same_bits
from tests.trainings import TOKENS, TRAININGS, H, lines, stream, train


@pytest.mark.parametrize("kind", TRAININGS)
def test_the_loss_falls_well_below_that_of_a_constant_answer(kind: str) -> None:
    options = TRAININGS[kind]()
    targets = np.concatenate([batch.y.reshape(-1) for batch in options["data"].batches(0)])
    constant = targets.var()
    if isinstance(options["loss"], CrossEntropy):
        shares = np.bincount(targets) / len(targets)
        constant = -np.sum(shares * np.log(shares))
    changes = {"epochs": 40, "schedule": None} | ({"early_stopping": None} if "early_stopping" in options else {})
    model, history = train(kind, **changes)
    assert evaluate(model, options["data"], options["loss"]) < 0.5 * constant
    assert np.mean(history["loss"][-3:]) < 0.6 * constant


@pytest.mark.parametrize("kind", TRAININGS)
def test_the_same_seeds_give_the_same_bits_on_any_number_of_threads(kind: str) -> None:
    model, history = train(kind)
    rb.set_num_threads(3)
    twin, again = train(kind)
    rb.set_num_threads(0)
    assert same_bits(dict(model.weights), dict(twin.weights))
    assert dict(history) == dict(again)


def test_a_trainings_losses_are_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    options: dict[str, Any] = {"seed": 3, "dtype": "float64"}
    model = Sequential(
        Embedding(TOKENS, 5, **options), rb.LSTM(5, H, 2, batch_first=True, **options), Linear(H, TOKENS, **options)
    )
    w = {name: torch.tensor(array, requires_grad=True) for name, array in model.weights.items() if name[0] in "02"}
    lstm = rb.to_framework(model[1].to_weights(), "pytorch", batch_first=True)
    parameters = [*w.values(), *lstm.parameters()]
    optimiser, state, losses = torch.optim.Adam(parameters, 0.02), None, []
    data = Windows(stream(899), batch_size=3, steps=7)
    for batch in data.batches(0):
        y, state = lstm(torch.nn.functional.embedding(torch.tensor(batch.x), w["0.weight"]), state)
        state = tuple(part.detach() for part in state)
        y = torch.nn.functional.linear(y, w["2.weight"], w["2.bias"])
        loss = torch.nn.functional.cross_entropy(y.flatten(0, 1), torch.tensor(batch.y).flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimiser.step()
        losses.append(loss.item())
    history = fit(model, data, loss=CrossEntropy(), optimiser=Adam(0.02), clip_norm=0.5)
    # Each update adds some roundings of its own to what those before it left.
    allowed = 1000 * len(losses) * np.finfo(float).eps
    assert np.abs(np.subtract(history["step_loss"], losses)).max() < allowed
    assert losses[-1] < 0.9 * losses[0]


def test_windows_hand_the_state_on_and_lose_nothing_at_their_borders() -> None:
    x = stream(106)
    windows = list(Windows(x, batch_size=5, steps=4).batches(0))
    assert [batch.x.shape for batch in windows] == [(5, 4)] * 5 + [(5, 1)]
    assert np.array_equal(np.concatenate([batch.x for batch in windows], axis=1).ravel(), x[:105])
    assert np.array_equal(np.concatenate([batch.y for batch in windows], axis=1).ravel(), x[1:])
    model = Sequential(Embedding(TOKENS, 5, seed=1), rb.RNN(5, H, activation="tanh", seed=2, batch_first=True))
    whole, state = model(np.concatenate([batch.x for batch in windows], axis=1)), None
    for batch in windows:
        _, state = model(batch.x, state)
    assert np.array_equal(state[1], whole[1][1])
    scored = Sequential(model, Linear(H, TOKENS, seed=3))
    losses = [evaluate(scored, Windows(x, batch_size=5, steps=steps), CrossEntropy()) for steps in (4, 21)]
    assert losses[0] == pytest.approx(losses[1], rel=21 * float(np.finfo("f").eps))


def test_a_target_can_be_given_for_each_step_of_a_stream() -> None:
    x, y = np.random.default_rng(0).random((23, 3)), np.arange(23.0)[:, None]
    batch = next(Windows(x, y, batch_size=2, steps=5).batches(0))
    assert np.array_equal(batch.x, np.stack([x[:5], x[11:16]]))
    assert np.array_equal(batch.y[..., 0], [[0, 1, 2, 3, 4], [11, 12, 13, 14, 15]])


def test_every_sample_comes_once_an_epoch_in_another_order() -> None:
    x = np.arange(23)[:, None]
    data = Batches(x, x[:, 0] * 2, x[:, 0] % 2, batch_size=5, seed=3)
    epochs = [list(data.batches(epoch)) for epoch in (0, 1, 0)]
    first, second, again = (np.concatenate([batch.x for batch in epoch])[:, 0] for epoch in epochs)
    assert sorted(first) == sorted(second) == list(range(23))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)
    assert [len(batch.x) for batch in epochs[0]] == [5, 5, 5, 5, 3] == [5] * (len(data) - 1) + [3]
    for batch in epochs[1]:
        assert np.array_equal(batch.y, batch.x[:, 0] * 2)
        assert np.array_equal(batch.lengths, batch.x[:, 0] % 2)
    assert np.array_equal(next(data.batches(1, start=3)).x, epochs[1][3].x)
    unshuffled = Batches(x, x, batch_size=23, shuffle=False)
    assert np.array_equal(next(unshuffled.batches(4)).x, x)


def test_early_stopping_ends_and_goes_back_to_the_best_epoch() -> None:
    options = TRAININGS["classifier"]()
    _, full = train("classifier", epochs=30, optimiser=Adam(0.2), schedule=None, early_stopping=EarlyStopping(99))
    stopping = EarlyStopping(2)
    model, history = train("classifier", epochs=30, optimiser=Adam(0.2), schedule=None, early_stopping=stopping)
    losses = history["validation_loss"]
    best = int(np.argmin(losses))
    assert len(losses) == best + 3 < 30
    assert losses == full["validation_loss"][: len(losses)]
    assert evaluate(model, options["validation"], CrossEntropy()) == losses[best] == stopping.best


def test_a_better_loss_is_better_by_min_delta() -> None:
    stopping, model = EarlyStopping(2, min_delta=0.1), Sequential(Linear(3, 2, seed=1))
    for loss in (1.0, 0.95, 0.85):
        stopping.observe(loss, model)
    assert (stopping.best, stopping.bad, stopping.is_over) == (0.85, 0, False)
    stopping.observe(0.8, model)
    stopping.observe(0.76, model)
    assert (stopping.best, stopping.is_over) == (0.85, True)


def test_validation_changes_nothing_and_drops_nothing() -> None:
    options = TRAININGS["classifier"]()
    model, offset = options["model"], options["model"][1].dropout_offset
    before = {name: array.copy() for name, array in model.weights.items()}
    assert evaluate(model, options["validation"], CrossEntropy()) == evaluate(
        model, options["validation"], CrossEntropy()
    )
    assert same_bits(before, dict(model.weights))
    assert model[1].dropout_offset == offset
    one, _ = train("classifier", schedule=None, early_stopping=None)
    other, _ = train("classifier", schedule=None, early_stopping=None, validation=None)
    assert same_bits(dict(one.weights), dict(other.weights))


def test_the_mean_is_over_what_counts_not_over_batches() -> None:
    model = Sequential(rb.LSTM(3, 2, seed=1, batch_first=True))
    rng = np.random.default_rng(1)
    x, y, lengths = (
        rng.random((11, 5, 3), np.float32),
        rng.random((11, 5, 2), np.float32),
        np.array([5, 0, 1, 1, 2, 0, 3, 5, 5, 4, 1]),
    )
    whole = MSE()(model(x, lengths=lengths)[0], y, lengths).mean
    for size in (1, 3, 11):
        got = evaluate(model, Batches(x, y, lengths, batch_size=size), MSE())
        assert got == pytest.approx(whole, rel=11 * float(np.finfo("f").eps))


def test_history_has_a_number_for_each_update_and_each_epoch() -> None:
    _, history = train("language model", epochs=3, max_steps=14)
    assert {name: len(numbers) for name, numbers in history.items()} == {
        "step_loss": 14,
        "loss": 2,
        "validation_loss": 0,
        "lr": 2,
        "updates": 2,
    }
    data = TRAININGS["language model"]()["data"]
    assert history["updates"] == [len(data), 2 * len(data)]
    assert repr(history).startswith("<History of 14 updates, 2 epochs: loss ")


def test_the_schedule_sets_the_rate_of_every_update() -> None:
    rates = []

    class Noting(SGD):
        def update(self, weights: Any, gradients: Any, lr: float | None = None) -> None:
            rates.append(lr)
            super().update(weights, gradients, lr)

    schedule = TRAININGS["language model"]()["schedule"]
    _, history = train("language model", epochs=2, optimiser=Noting(0.3))
    assert rates == [schedule.rate(0.3, t) for t in range(len(rates))]
    assert history["lr"] == [rates[len(rates) // 2 - 1], rates[-1]]


def test_an_optimiser_goes_on_where_it_was_and_schedules_begin_anew() -> None:
    options = TRAININGS["regression"]()
    model, optimiser = options["model"], options["optimiser"]
    for _ in range(2):
        fit(model, options["data"], loss=MSE(), optimiser=optimiser)
    assert {int(slots["step"]) for slots in optimiser.state.values()} == {2 * len(options["data"])}
    stopping, plateau = EarlyStopping(1), Plateau(patience=0, threshold=0.9)
    for _ in range(2):
        _, history = train("classifier", optimiser=Adam(0.2), early_stopping=stopping, schedule=None, epochs=30)
        assert stopping.is_over
        assert len(history["loss"]) > 1
        _, history = train("classifier", optimiser=Adam(0.2), early_stopping=None, schedule=plateau)
        assert history["lr"][:2] == [0.2, 0.2] != history["lr"][1:3]


def test_frozen_layers_stay_as_they_are() -> None:
    model = TRAININGS["classifier"]()["model"]
    before = {name: array.copy() for name, array in model.weights.items()}
    model[1].freeze()
    train("classifier", model=model, epochs=1)
    same = {name for name, array in model.weights.items() if np.array_equal(array, before[name])}
    assert same == {name for name in before if name.startswith("1.")}


def test_a_loss_of_ones_own() -> None:
    def absolute(y: np.ndarray, target: np.ndarray, lengths: Any) -> LossValue:
        assert lengths is None
        return LossValue(float(np.abs(y - target).mean()), np.sign(y - target) / y.size, y.size)

    _, history = train("regression", loss=absolute, epochs=20)
    assert history["loss"][-1] < 0.7 * history["loss"][0]


def test_a_loop_of_ones_own_gives_the_bits_of_fit() -> None:
    model, history = train("language model", epochs=1, schedule=None)
    options = TRAININGS["language model"]()
    state, losses = None, []
    for batch in options["data"].batches(0):
        value, state = train_step(
            options["model"],
            batch,
            loss=options["loss"],
            optimiser=options["optimiser"],
            state=state,
            clip_value=options["clip_value"],
        )
        losses.append(value.mean)
    assert losses == history["step_loss"]
    assert same_bits(dict(model.weights), dict(options["model"].weights))


def test_a_loss_that_is_no_number_ends_the_training_before_the_update() -> None:
    options = TRAININGS["regression"]()
    data, model = options["data"], options["model"]
    data.y[:] = np.nan
    before = {name: array.copy() for name, array in model.weights.items()}
    with pytest.raises(
        rb.DivergedError, match="the loss became infinite or no number: a lower learning rate, or clip_norm"
    ):
        train("regression", data=data, model=model)

    def steep(y: np.ndarray, target: np.ndarray, lengths: Any) -> LossValue:
        return LossValue(1.0, np.full_like(y, np.inf), y.size)

    with np.errstate(all="ignore"), pytest.raises(rb.DivergedError, match="became infinite or no number"):
        train("regression", data=data, model=model, loss=steep, clip_norm=1.0)
    assert same_bits(before, dict(model.weights))


@pytest.mark.parametrize("clip", [{}, {"clip_value": 1.0}, {"clip_norm": 1.0}])
def test_a_gradient_that_is_no_number_ends_the_training_before_the_update(clip: dict[str, float]) -> None:
    model = Sequential(Linear(3, 2, seed=1))
    before = {name: array.copy() for name, array in model.weights.items()}
    batch = Batch(np.ones((2, 5, 3), "f"), np.ones((2, 5, 2), "f"), None)

    def bad(y: Any, target: Any, lengths: Any) -> LossValue:
        return LossValue(1.0, np.full_like(y, np.nan), 1)

    with pytest.raises(rb.DivergedError, match="became infinite or no number"):
        train_step(model, batch, loss=bad, optimiser=Adam(), **clip)
    assert same_bits(before, dict(model.weights))


def test_the_bar_tells_loss_speed_and_what_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    train("classifier", epochs=2, progress=True)
    shown = capfd.readouterr().err
    assert "epoch 2/2" in shown
    assert "tokens/s" in shown
    assert "left" in shown


def test_there_is_no_bar_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    train("classifier", epochs=1)
    train("classifier", epochs=1, progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_history_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    _, history = train("classifier", epochs=3)
    axes = history.plot().axes[0]
    (steps, losses, validation) = (line.get_data() for line in axes.get_lines())
    assert list(steps[1]) == history["step_loss"]
    assert (list(losses[0]), list(losses[1])) == (history["updates"], history["loss"])
    assert list(validation[1]) == history["validation_loss"]


def test_what_to_install_is_said_where_there_is_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _, history = train("regression", epochs=1)
    with pytest.raises(rb.MissingExtraError, match=r"pip install 'rnnbridge\[plot\]'$"):
        history.plot()


def test_zero_epochs_do_nothing() -> None:
    model, history = train("classifier", epochs=0)
    assert same_bits(dict(model.weights), dict(TRAININGS["classifier"]()["model"].weights))
    assert not any(history.values())


class Own:
    """Batches that are made as they are needed."""

    carries_state = False

    def __init__(self, promised: int) -> None:
        self.promised = promised

    def __len__(self) -> int:
        return self.promised

    def batches(self, epoch: int, start: int = 0) -> Any:
        for k in range(start, 3):
            yield Batch(*lines(5, seed=10 * epoch + k)[:2])


def test_batches_of_ones_own_are_trained_on() -> None:
    changes: dict[str, Any] = {"epochs": 2, "validation": None, "early_stopping": None, "schedule": None}
    _, history = train("classifier", data=Own(3), **changes)
    assert len(history["step_loss"]) == 6
    assert all(one != other for one, other in pairwise(history["step_loss"]))
    with pytest.raises(rb.ArgumentError, match=r"data gave 3 batches, and len\(data\) is 4"):
        train("classifier", data=Own(4), **changes)


def test_data_that_give_more_batches_than_they_say_end() -> None:
    class Endless(Batches):
        def batches(self, epoch: int, start: int = 0) -> Any:
            while True:
                yield from super().batches(epoch)

    rng = np.random.default_rng(1)
    data = Endless(rng.standard_normal((5, 7, 3)).astype("f"), rng.standard_normal((5, 7, 2)).astype("f"), batch_size=2)
    history = fit(Sequential(Linear(3, 2, seed=1)), data, loss=MSE(), optimiser=Adam(1e-3), epochs=2)
    assert len(history["step_loss"]) == 6


def test_a_validation_loss_that_is_no_number_is_never_the_best() -> None:
    model, stopping, plateau = Sequential(Linear(3, 2, seed=1)), EarlyStopping(patience=3), Plateau(patience=5)
    stopping.begin()
    for loss in (float("nan"), 0.7, 0.6):
        stopping.observe(loss, model)
        plateau.observe(loss, 1.0)
    assert (stopping.best, stopping.bad) == (0.6, 0)
    assert plateau.rate(1.0, 3) == 1.0
