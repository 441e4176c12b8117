"""A model of Paddle 1 that people use, fetched into a cache: jieba's, whose GRUs read right cut Chinese into words.

It is other people's work (MIT) and is never committed. Only one reading of the eight that its files allow does that.
"""

from __future__ import annotations

import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.converters.paddle_tensors import read_tensors
from rnnbridge.reference import forward
from tests.fetching import package

pytestmark = pytest.mark.network
MODEL = "jieba-0.42.1/jieba/lac_small"
SENTENCE = "我来到北京清华大学"
WORDS = ["我", "来到", "北京清华大学"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jieba")
    with tarfile.open(package("jieba", "0.42.1", "--no-binary", ":all:", "--no-build-isolation")) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.startswith(f"{MODEL}/"):
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    return folder


def words(model: Path, keeps: bool, reset: str = "before") -> list[str]:
    """The sentence cut by the model: two layers of two GRUs each, a linear layer, and the best way through a CRF."""
    layers = rb.load(
        model / "gru_0.w_0",
        settings={"gru_1.reverse": "true", "gru_3.reverse": "true", "origin_mode": str(keeps).lower()},
    )
    ids = dict(line.split("\t")[::-1] for line in (model / "word.dic").read_text("utf8").split("\n") if "\t" in line)
    tags = dict(line.split("\t") for line in (model / "tag.dic").read_text("utf8").split("\n") if "\t" in line)
    tensor = {name: read_tensors(model / name, 1)[0] for name in ("word_emb", "fc_4.w_0", "fc_4.b_0", "crfw")}
    x = tensor["word_emb"][[int(ids[letter]) for letter in SENTENCE]][:, None]
    for pair in (("gru_0", "gru_1"), ("gru_2", "gru_3")):
        x = np.concatenate([_run(layers[name], x, reset) for name in pair], axis=-1)
    scores, weights = x[:, 0] @ tensor["fc_4.w_0"] + tensor["fc_4.b_0"], tensor["crfw"]
    best = [tags[str(tag)] for tag in _best_path(scores, weights[0], weights[1], weights[2:])]
    found = [""]
    for letter, tag in zip(SENTENCE, best, strict=True):
        found += [""] if tag.endswith(("-B", "O")) and found[-1] else []
        found[-1] += letter
    return found


def _run(weights: rb.RNNWeights, x: np.ndarray, reset: str) -> np.ndarray:
    zero = np.zeros((1, 1, weights.spec.hidden_size))
    return forward(weights.spec.replace(reset=reset), weights.arrays, x, zero, None)[0]


def _best_path(scores: np.ndarray, start: np.ndarray, end: np.ndarray, step: np.ndarray) -> list[int]:
    total, came_from = start + scores[0], []
    for row in scores[1:]:
        ways = total[:, None] + step
        came_from.append(ways.argmax(axis=0))
        total = ways.max(axis=0) + row
    path = [int((total + end).argmax())]
    for back in reversed(came_from):
        path.append(int(back[path[-1]]))
    return path[::-1]


def test_jieba_cuts_a_sentence(model: Path) -> None:
    assert words(model, keeps=False) == WORDS


def test_no_other_formula_does(model: Path) -> None:
    others = [
        (keeps, reset) for keeps, reset in product((False, True), ("before", "after")) if keeps or reset != "before"
    ]
    assert all(words(model, keeps, reset) != WORDS for keeps, reset in others)
