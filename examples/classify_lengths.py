"""Is a line code, a comment or a docstring? A two-way GRU reads lines of Python's own library, of 5 to 80 characters.

    python examples/classify_lengths.py [PICTURE.png] [--epochs N] [--lines N]

Indentation, '#' and quotes are taken off, so that it has to read. It ends with the share of unseen lines that are told
right, beside counting characters (naive Bayes), and a picture of it over the lines' lengths.
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rnnbridge as rb
from rnnbridge.training import (
    Adam,
    Batches,
    CrossEntropy,
    EarlyStopping,
    Embedding,
    LastStep,
    Linear,
    Sequential,
    fit,
    seeds,
)

KINDS = ("code", "comment", "docstring")
SHORTEST, LONGEST = 5, 80
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of(source: str) -> Iterator[tuple[str, int]]:
    """(line, kind) of a module."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            inside.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    for number, line in enumerate(source.splitlines(), start=1):
        bare = line.strip()
        kind = 2 if number in inside else 1 if bare.startswith("#") else 0
        bare = bare.strip("\"'# ") if kind else bare
        if kind == 0 and ("#" in bare or '"""' in bare):
            continue  # code and a comment in one line
        if SHORTEST <= len(bare) <= LONGEST and bare.isascii() and bare.isprintable():
            yield bare, kind


def library() -> list[tuple[str, int]]:
    """The different lines of the modules at the top of Python's library, in an order that is always the same."""
    found: dict[str, int] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        found |= dict(lines_of(path.read_text(encoding="utf-8")))
    return sorted(found.items())


def balanced(lines: list[tuple[str, int]], count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
    """As many lines of each kind, in a random order, at most `count` in all."""
    of_kind = [[line for line in lines if line[1] == kind] for kind in range(len(KINDS))]
    each = min(count // len(KINDS), *map(len, of_kind))
    chosen = [group[k] for group in of_kind for k in rng.permutation(len(group))[:each]]
    return [chosen[k] for k in rng.permutation(len(chosen))]


def naive_bayes(tokens: np.ndarray, kinds: np.ndarray, lengths: np.ndarray, train: slice) -> np.ndarray:
    """The kind that each line's characters make likeliest, whatever their order."""
    valid = np.arange(tokens.shape[1]) < lengths[:, None]
    counts = np.stack([np.bincount(line[mask], minlength=128) for line, mask in zip(tokens, valid, strict=True)])
    seen = np.stack([counts[train][kinds[train] == kind].sum(axis=0) + 1 for kind in range(len(KINDS))])
    return (counts @ np.log(seen / seen.sum(axis=1, keepdims=True)).T).argmax(axis=1)


def draw(right: dict[str, np.ndarray], lengths: np.ndarray, path: Path) -> None:
    """The share told right, over lengths."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise rb.MissingExtraError("drawing the shares", "matplotlib", "plot") from error
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    edges = np.arange(SHORTEST, LONGEST, 15)
    group = np.digitize(lengths, edges)
    for name, told in right.items():
        shares = [told[group == k].mean() for k in np.unique(group)]
        axes.plot([lengths[group == k].mean() for k in np.unique(group)], shares, marker="o", label=name)
    axes.axhline(1 / len(KINDS), linestyle=":", color="0.5", label="guessing")
    axes.set(xlabel="characters in the line", ylabel="told right", ylim=(0.3, 1), title="Code, comment or docstring?")
    axes.legend()
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train, compare, draw. Returns the share of unseen lines told right by the classifier's name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", nargs="?", type=Path, default=Path(__file__).with_suffix(".png"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lines", type=int, default=24_000)
    asked = parser.parse_args(arguments)

    seed = seeds(3)
    chosen = balanced(library(), asked.lines, np.random.default_rng(next(seed)))
    lengths, kinds = np.array([len(line) for line, _ in chosen]), np.array([kind for _, kind in chosen])
    tokens = np.zeros((len(chosen), LONGEST), np.int64)  # what is past a length is never read
    for row, (line, _) in zip(tokens, chosen, strict=True):
        row[: len(line)] = list(line.encode("ascii"))
    tenth = len(chosen) // 10
    train, valid, test = slice(2 * tenth, None), slice(tenth, 2 * tenth), slice(tenth)

    model = Sequential(
        Embedding(128, 24, seed=next(seed)),
        rb.GRU(24, 48, reset="after", bidirectional=True, seed=next(seed), batch_first=True),
        LastStep(bidirectional=True),
        Linear(96, len(KINDS), seed=next(seed)),
    )
    print(model)
    fit(
        model,
        Batches(tokens[train], kinds[train], lengths[train], batch_size=64, seed=next(seed)),
        loss=CrossEntropy(),
        optimiser=Adam(3e-3),
        epochs=asked.epochs,
        clip_norm=1.0,
        validation=Batches(tokens[valid], kinds[valid], lengths[valid], batch_size=200, shuffle=False),
        early_stopping=EarlyStopping(patience=2),
    )

    scores, _ = model(tokens[test], lengths=lengths[test])
    told = {"naive Bayes": naive_bayes(tokens, kinds, lengths, train)[test], "GRU": scores.argmax(axis=1)}
    right = {name: guess == kinds[test] for name, guess in told.items()}
    result = {name: float(one.mean()) for name, one in right.items()}
    print(f"\nTold right, of {tenth} unseen lines:")
    for name, share in result.items():
        print(f"  {name:12} {share:.1%}")
    try:
        draw(right, lengths[test], asked.picture)
        print(f"The shares by length are drawn in {asked.picture}")
    except rb.MissingExtraError as error:
        print(f"No picture: {error}")
    return result


if __name__ == "__main__":
    main()
