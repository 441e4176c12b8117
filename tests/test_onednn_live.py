"""oneDNN itself runs what is written: its primitives, by a small C++ program. Needs oneDNN 3's headers and library."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation
from tests.golden.onednn_program import build, is_installed, run
from tests.samples import inputs_of, spec_of, weights_of

PREFIX = os.environ.get("ONEDNN_PREFIX", sys.prefix)
if not is_installed(PREFIX) or shutil.which("g++") is None:
    pytest.skip(
        "oneDNN or g++ is not installed (pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0, here "
        "or under ONEDNN_PREFIX): its primitives run nothing",
        allow_module_level=True,
    )
LAYERS: list[tuple[str, str, dict[str, Any]]] = [
    ("lstm", "lstm", {}),
    ("lstm", "lstm", {"peephole": True}),
    ("lstm", "lstm", {"proj_size": 2, "peephole": True}),
    ("gru_before", "gru", {}),
    ("gru_after", "lbr_gru", {}),
    ("rnn_tanh", "vanilla_rnn", {}),
    ("rnn_relu", "relu", {}),
]
DIRECTIONS = {
    "forward": {},
    "reverse": {"direction": "reverse"},
    "concat": {"direction": "bidirectional"},
    "sum": {"direction": "bidirectional", "merge": "sum"},
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("onednn"), PREFIX)


@pytest.mark.parametrize(("cell", "kind", "changes"), LAYERS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tag", ["ldigo", "ldgoi"])
def test_onednn_runs_what_is_written(
    cell: str, kind: str, changes: dict[str, Any], direction: str, tag: str, program: Path, tmp_path: Path
) -> None:
    weights = weights_of(spec_of(cell, **changes, **DIRECTIONS[direction]))
    rb.save(weights, tmp_path / "a.onednn.npz", settings={"tag": tag})
    arrays = dict(np.load(tmp_path / "a.onednn.npz"))
    for batch in (1, 3):
        given = inputs_of(weights.spec, batch)
        states = [state[None] for state in (given.h0, given.c0) if state is not None]
        y, finals = run(program, kind, direction, arrays, given.x, states)
        exact, allowed = expectation(weights.spec, weights.arrays, given.x, given.h0, given.c0)
        assert np.abs(exact["y"] - y).max() <= allowed["y"]
        for name, state in zip("hc", finals, strict=False):
            assert np.abs(exact[name] - state[0]).max() <= allowed[name]
