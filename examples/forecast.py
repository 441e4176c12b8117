"""Tomorrow's load of a power grid, hour by hour, from the week before: a GRU beside two naive forecasts.

    python examples/forecast.py [PICTURE.png] [--epochs N]

The load is made up: habits of the day and the week, weather that drifts from day to day, and noise. It ends with the
mean error of each forecast over days that were not trained on, and a picture of a few of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import rnnbridge as rb
from rnnbridge.training import MSE, Adam, Batches, CosineDecay, EarlyStopping, LastStep, Linear, Sequential, fit, seeds

DAY, WEEK = 24, 168
DAYS = 1100


def grid_load(rng: np.random.Generator) -> np.ndarray:
    """[hours], in gigawatts."""
    hours = np.arange(DAYS * DAY)
    hour, weekday = hours % DAY, hours // DAY % 7
    morning, evening = np.exp(-((hour - 9) ** 2) / 8), np.exp(-((hour - 19) ** 2) / 10)
    habit = 30 + np.where(weekday < 5, 12 * morning + 9 * evening, 5 * morning + 9 * evening)
    weather = np.zeros(DAYS)
    for day in range(1, DAYS):  # warm and cold spells
        weather[day] = 0.85 * weather[day - 1] + rng.normal(0, 1.5)
    smooth = np.interp(hours / DAY, np.arange(DAYS) + 0.5, weather)
    heating = smooth * (1 + 0.5 * np.sin(2 * np.pi * hour / DAY))  # felt more by night and in the morning
    return habit + heating + rng.normal(0, 0.7, len(hours))


def samples(load: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each midnight the week before it [days, 168, features] and the day after it [days, 24]."""
    hours = np.arange(len(load))
    features = np.stack(
        [
            (load - load.mean()) / load.std(),
            np.sin(2 * np.pi * hours / DAY),
            np.cos(2 * np.pi * hours / DAY),
            np.sin(2 * np.pi * hours / WEEK),
            np.cos(2 * np.pi * hours / WEEK),
        ],
        axis=1,
    ).astype(np.float32)
    midnights = range(WEEK, len(load) - DAY + 1, DAY)
    x = np.stack([features[at - WEEK : at] for at in midnights])
    return x, np.stack([features[at : at + DAY, 0] for at in midnights])


def draw(actual: np.ndarray, forecasts: dict[str, np.ndarray], path: Path) -> None:
    """The last ten days that were forecast."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise rb.MissingExtraError("drawing a forecast", "matplotlib", "plot") from error
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(actual[-10:].ravel(), color="0.6", linewidth=3, label="actual")
    for name, forecast in forecasts.items():
        axes.plot(forecast[-10:].ravel(), linewidth=1.8 if name == "GRU" else 0.8, label=name)
    axes.set(xlabel="hour", ylabel="load, GW", ylim=(22, 52), title="Each day forecast at the midnight before it")
    axes.legend(loc="upper left", ncols=4)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train, compare, draw. Returns the mean absolute error in gigawatts by the forecast's name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", nargs="?", type=Path, default=Path(__file__).with_suffix(".png"))
    parser.add_argument("--epochs", type=int, default=60)
    asked = parser.parse_args(arguments)

    seed = seeds(1)
    load = grid_load(np.random.default_rng(next(seed)))
    x, y = samples(load)
    test, valid = slice(-150, None), slice(-250, -150)

    model = Sequential(
        rb.GRU(x.shape[-1], 48, reset="after", seed=next(seed), batch_first=True),
        LastStep(),
        Linear(48, DAY, seed=next(seed)),
    )
    print(model)
    data = Batches(x[:-250], y[:-250], batch_size=32, seed=next(seed))
    fit(
        model,
        data,
        loss=MSE(),
        optimiser=Adam(5e-3),
        epochs=asked.epochs,
        schedule=CosineDecay(asked.epochs, lowest=2e-4),
        clip_norm=1.0,
        validation=Batches(x[valid], y[valid], batch_size=100, shuffle=False),
        early_stopping=EarlyStopping(patience=12),
    )

    scaled = {
        "same hour yesterday": x[test, -DAY:, 0],
        "same hour last week": x[test, :DAY, 0],
        "GRU": model(x[test])[0],
    }
    forecasts = {name: forecast * load.std() + load.mean() for name, forecast in scaled.items()}
    actual = y[test] * load.std() + load.mean()
    result = {name: float(np.abs(forecast - actual).mean()) for name, forecast in forecasts.items()}
    print(f"\nMean absolute error over {len(actual)} days, GW:")
    for name, error in result.items():
        print(f"  {name:20} {error:.3f}")
    try:
        draw(actual, forecasts, asked.picture)
        print(f"The last ten days are drawn in {asked.picture}")
    except rb.MissingExtraError as error:
        print(f"No picture: {error}")
    return result


if __name__ == "__main__":
    main()
