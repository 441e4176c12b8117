"""A language model of characters, trained on the help texts that ship with Python, beside n-gram models.

    python examples/char_language_model.py [PICTURE.png] [--epochs N] [--max-steps N] [--hidden H]

It ends with bits per character on text that it has not seen, a text that it makes up, and a picture.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

import rnnbridge as rb
from rnnbridge.training import (
    Adam,
    CosineDecay,
    CrossEntropy,
    Embedding,
    History,
    Linear,
    Sequential,
    Windows,
    evaluate,
    fit,
    seeds,
)

PER_NAT = 1 / math.log(2)  # bits


def texts() -> tuple[str, str]:
    """What is trained on, and every tenth topic, which is kept for the end."""
    known = list(topics.values())
    return "\n\n".join(text for k, text in enumerate(known) if k % 10), "\n\n".join(known[::10])


def n_gram_bits(train: str, unseen: str, n: int, alphabet: int) -> float:
    """Bits per character of a model that looks at n - 1 characters, and trusts shorter contexts where it saw little."""
    grams = [Counter(train[k : k + m] for k in range(len(train) - m + 1)) for m in range(n + 1)]
    bits = 0.0
    for k in range(n, len(unseen)):
        share = 1 / alphabet
        for m in range(1, n + 1):
            context = unseen[k - m + 1 : k]
            share = (grams[m][context + unseen[k]] + 2 * share) / (grams[m - 1][context] + 2)
        bits -= math.log2(share)
    return bits / (len(unseen) - n)


def sample(model: Sequential, alphabet: str, beginning: str, length: int, seed: int) -> str:
    """A text that goes on from a beginning, each character drawn from what the model expects there."""
    rng, text, state = np.random.default_rng(seed), beginning, None
    tokens = np.array([[alphabet.index(c) for c in beginning]])
    for _ in range(length):
        scores, state = model(tokens, state)
        shares = np.exp((scores[0, -1] - scores.max()) / 0.7)  # below 1: likely characters are made likelier
        tokens = rng.choice(len(alphabet), size=(1, 1), p=shares / shares.sum())
        text += alphabet[tokens[0, 0]]
    return text


def draw(history: History, baselines: dict[str, float], path: Path) -> None:
    """The losses, in nats, and the n-gram models as lines."""
    figure = history.plot()
    for name, bits in baselines.items():
        figure.axes[0].axhline(bits / PER_NAT, linestyle=":", color="0.4")
        figure.axes[0].annotate(name, (0, bits / PER_NAT), color="0.4", va="bottom")
    figure.axes[0].set(title="Cross entropy of a character, in nats", ylim=(0, 4))
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train, compare, sample, draw. Returns bits per character by the model's name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", nargs="?", type=Path, default=Path(__file__).with_suffix(".png"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--hidden", type=int, default=256)
    asked = parser.parse_args(arguments)

    train, unseen = texts()
    alphabet = "".join(sorted({*train, *unseen}))
    tokens, unseen_tokens = (np.array([alphabet.index(c) for c in text]) for text in (train, unseen))
    baselines = {f"{n}-gram": n_gram_bits(train, unseen, n, len(alphabet)) for n in (1, 2, 3, 5)}

    seed = seeds(7)
    model = Sequential(
        Embedding(len(alphabet), 32, seed=next(seed)),
        rb.LSTM(32, asked.hidden, seed=next(seed), batch_first=True),
        Linear(asked.hidden, len(alphabet), seed=next(seed)),
    )
    print(model)
    data = Windows(tokens, batch_size=32, steps=64)
    validation = Windows(unseen_tokens, batch_size=16, steps=64)
    schedule = CosineDecay(len(data) * asked.epochs, lowest=1e-4, per="step")
    options = {"schedule": schedule, "clip_norm": 1.0, "epochs": asked.epochs, "max_steps": asked.max_steps}
    history = fit(model, data, loss=CrossEntropy(), optimiser=Adam(4e-3), validation=validation, **options)

    result = {**baselines, "LSTM": evaluate(model, validation, CrossEntropy()) * PER_NAT}
    print(f"\nIt goes on from 'The ':\n{sample(model, alphabet, 'The ', 400, seed=7)}\n")
    print(f"Bits per character on {len(unseen)} unseen ones, of {len(alphabet)} different ones:")
    for name, bits in result.items():
        print(f"  {name:8} {bits:.3f}")
    try:
        draw(history, baselines, asked.picture)
        print(f"The losses are drawn in {asked.picture}")
    except rb.MissingExtraError as error:
        print(f"No picture: {error}")
    return result


if __name__ == "__main__":
    main()
