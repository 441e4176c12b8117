"""A Keras model trained on a GPU learns new tricks on this CPU, and goes back to Keras.

    python examples/finetune_keras_gpu.py [PICTURE.png] [--epochs N] [--folder FOLDER]

gpu_model.h5 (CuDNN layers between an Embedding and a Dense) says what kind of field a short text is. It knows times
like "17:30" and colours like "#ff8800"; here it learns "5.30pm" and "rgb.255.136.0" too, without forgetting. All its
layers are trained, and written back as Keras weights for CPUs (finetuned.h5) and for GPUs (finetuned_gpu.h5).
It ends with the share of texts told right before and after, and a picture.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rnnbridge as rb
from rnnbridge.training import (
    Adam,
    Batches,
    CrossEntropy,
    Embedding,
    History,
    LastStep,
    Linear,
    Sequential,
    fit,
    seeds,
)

MODEL = Path(__file__).with_name("gpu_model.h5")
RECURRENT = ("both_ways", "context", "summary")
KINDS = ("date", "time", "amount", "colour", "address", "word")
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.-:@#"  # token k + 1 is ALPHABET[k], token 0 is padding
STEPS = 17
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()

Rng = np.random.Generator


def word(rng: Rng, shortest: int = 3, longest: int = 8) -> str:
    """Some letters."""
    return "".join(rng.choice(list(ALPHABET[:26]), rng.integers(shortest, longest + 1)))


OLD: dict[str, Callable[[Rng], str]] = {  # what the model was trained on
    "date": lambda rng: f"{rng.integers(1900, 2100)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
    "time": lambda rng: f"{rng.integers(24):02}:{rng.integers(60):02}",
    "amount": lambda rng: f"{rng.integers(10 ** rng.integers(1, 6))}.{rng.integers(100):02}",
    "colour": lambda rng: "#" + "".join(rng.choice(list("0123456789abcdef"), 6)),
    "address": lambda rng: f"{word(rng, 2, 6)}@{word(rng, 2, 6)}.{rng.choice(['com', 'org', 'net', 'de'])}",
    "word": word,
}
NEW: dict[str, Callable[[Rng], str]] = {  # what it has never seen
    "date": lambda rng: f"{rng.integers(1, 29)}.{rng.choice(MONTHS)}.{rng.integers(1900, 2100)}",
    "time": lambda rng: f"{rng.integers(1, 13)}.{rng.integers(60):02}{rng.choice(['am', 'pm'])}",
    "amount": lambda rng: f"{rng.integers(1, 1000)}.{rng.integers(10)}{rng.choice(['k', 'm', 'bn'])}",
    "colour": lambda rng: "rgb." + ".".join(map(str, rng.integers(0, 256, 3))),
    "address": lambda rng: f"{word(rng, 4, 8)}.{rng.choice(['com', 'org', 'net', 'de'])}",
    "word": lambda rng: f"{word(rng, 3, 7)}-{word(rng, 3, 7)}",
}


def made_up(makers: dict[str, Callable[[Rng], str]], count: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [count, T], padded with 0 as Keras saw them, and kinds [count]."""
    kinds = rng.integers(0, len(KINDS), count)
    tokens = np.zeros((count, STEPS), np.int32)
    for row, kind in zip(tokens, kinds, strict=True):
        text = makers[KINDS[kind]](rng)
        row[: len(text)] = [ALPHABET.index(letter) + 1 for letter in text]
    return tokens, kinds


def loaded(bundle: rb.Bundle) -> Sequential:
    """The Keras model on rnnbridge's layers. Its softmax is left to the loss."""
    embeddings, kernel, bias = dense_arrays(bundle)
    model = Sequential(
        Embedding(*embeddings.shape),
        *(rb.layer(bundle[name], batch_first=True) for name in RECURRENT),
        LastStep(),
        Linear(*kernel.shape),
    )
    for name, array in {"0.weight": embeddings, "5.weight": kernel.T, "5.bias": bias}.items():
        model.weights[name][...] = array
    return model


def write_back(model: Sequential, bundle: rb.Bundle, folder: Path) -> None:
    """The trained weights where they were in the Keras file, as CPU and as GPU layers."""
    w = model.weights
    for array, trained in zip(dense_arrays(bundle), (w["0.weight"], w["5.weight"].T, w["5.bias"]), strict=True):
        array[...] = trained  # written to in place, as these are the arrays that the bundle writes back
    for name, layer in zip(RECURRENT, model.layers[1:4], strict=True):
        bundle.layers[name] = layer.to_weights()
    rb.save(bundle, folder / "finetuned.h5", overwrite=True)
    rb.save(bundle, folder / "finetuned_gpu.h5", format="keras-cudnn", overwrite=True)


def dense_arrays(bundle: rb.Bundle) -> list[np.ndarray]:
    """The arrays of Embedding and Dense: embeddings, kernel [inputs, outputs], bias."""
    return [next(a for n, a in bundle.tensors.items() if f"/{end}" in n) for end in ("embeddings", "kernel", "bias")]


def told_by_keras(path: Path, tokens: np.ndarray) -> np.ndarray | None:
    """Probabilities [N, kinds] of Keras itself on the written file; None where there is no Keras."""
    try:
        import keras
        from keras import layers
    except ImportError:
        return None
    model = keras.Sequential([
        layers.Input((None,)), layers.Embedding(42, 13), layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
        layers.GRU(31, return_sequences=True, reset_after=True), layers.LSTM(19), layers.Dense(6, activation="softmax"),
    ])  # fmt: skip
    model.load_weights(str(path))
    return np.asarray(model.predict(tokens, verbose=0))


def probabilities(model: Sequential, tokens: np.ndarray) -> np.ndarray:
    """[N, kinds]."""
    scores = model(tokens)[0]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def draw(history: History, result: dict[str, float], path: Path) -> None:
    """The losses, and what came of it."""
    figure = history.plot()
    told = "  ".join(f"{name}: {share:.0%}" for name, share in result.items() if name != "keras error")
    figure.axes[0].set(title=told)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Load, train, write back, compare. Returns shares told right, and Keras's largest difference if it is here."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", nargs="?", type=Path, default=Path(__file__).with_suffix(".png"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the Keras files stay; else they are removed at the end")
    asked = parser.parse_args(arguments)

    seed, bundle = seeds(5), rb.load(MODEL)
    rng, model = np.random.default_rng(next(seed)), loaded(bundle)
    print(model)
    parts = [made_up(OLD, 1200, rng), made_up(NEW, 2400, rng)]
    tokens, kinds = (np.concatenate(part) for part in zip(*parts, strict=True))
    tests = {"old": made_up(OLD, 500, rng), "new": made_up(NEW, 500, rng)}

    def shares(when: str) -> dict[str, float]:
        return {f"{name} {when}": float((model(x)[0].argmax(axis=1) == y).mean()) for name, (x, y) in tests.items()}

    result = shares("before")
    data = Batches(tokens, kinds, batch_size=48, seed=next(seed))
    validation = Batches(*made_up(NEW, 500, rng), batch_size=250, shuffle=False)
    history = fit(
        model,
        data,
        loss=CrossEntropy(),
        optimiser=Adam(2e-3),
        epochs=asked.epochs,
        clip_norm=1.0,
        validation=validation,
    )
    result |= shares("after")
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        write_back(model, bundle, folder)
        told = told_by_keras(folder / "finetuned.h5", tests["new"][0])
        again = loaded(rb.load(folder / "finetuned_gpu.h5"))
    difference = np.abs(probabilities(again, tests["new"][0]) - probabilities(model, tests["new"][0])).max()
    print("\nTold right, of 500 texts like those of the GPU training (old) and 500 of the new forms:")
    for name, share in result.items():
        print(f"  {name:12} {share:.1%}")
    print(f"Written back for GPUs and read again: probabilities differ by {difference:.1e}")
    if told is not None:
        result["keras error"] = float(np.abs(told - probabilities(model, tests["new"][0])).max())
        print(f"Keras runs finetuned.h5: probabilities differ by {result['keras error']:.1e}")
    try:
        draw(history, result, asked.picture)
        print(f"The losses are drawn in {asked.picture}")
    except rb.MissingExtraError as error:
        print(f"No picture: {error}")
    return result


if __name__ == "__main__":
    main()
