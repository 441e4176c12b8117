"""What `inspect` says of a layer: its formula, how that is known, and who can hold it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Group

from rnnbridge import tables
from rnnbridge.catalogue import catalogue
from rnnbridge.errors import ArgumentError
from rnnbridge.inspection import inspect
from rnnbridge.proof import verify
from rnnbridge.spec import GATES
from tests import standin
from tests.samples import CELLS, spec_of, weights_of
from tests.standin import standins, write_file

__all__ = ["standins"]


@pytest.fixture
def file(tmp_path: Path, standins: None) -> Path:
    """A GRU of either class, an LSTM, and an array that belongs to none."""
    specs = {
        "after": spec_of("gru_after"),
        "before": spec_of("gru_before"),
        "lstm": spec_of("lstm", bias="single", activations=("hard_sigmoid(0.2, 0.5)", "tanh", "relu")),
    }
    path = tmp_path / "file.plain"
    write_file(
        path, {name: (spec, weights_of(spec).arrays) for name, spec in specs.items()}, {"dense": np.ones((2, 3))}
    )
    return path


def test_it_names_the_gru_class_and_its_formula(file: Path) -> None:
    after, before, lstm = inspect(file).layers
    assert (after.gru_class, before.gru_class, lstm.gru_class) == ("reset after, z keeps", "reset before, z keeps", "")
    assert "r * (U h + b_hn)" in after.formula[0]
    assert "U (r * h)" in before.formula[0]
    assert after.formula[1] == before.formula[1] == "h' = (1 - z) n + z h"
    assert "hard_sigmoid(0.2, 0.5)" in lstm.formula[0]
    assert "relu(c')" in lstm.formula[1]


def test_every_cell_of_the_spec_is_run_by_the_tests_and_has_a_formula(tmp_path: Path, standins: None) -> None:
    assert {given["cell"] for given in CELLS.values()} == set(GATES)
    layers = {name: weights_of(spec_of(name)) for name in CELLS}
    write_file(tmp_path / "all.plain", {name: (one.spec, one.arrays) for name, one in layers.items()}, {})
    formulas = [layer.formula for layer in inspect(tmp_path / "all.plain").layers]
    assert len(set(formulas)) == len(CELLS)
    assert all("h' = " in formula[-1] for formula in formulas)


def test_it_says_who_can_hold_a_layer_and_why_not(file: Path) -> None:
    after, before, lstm = (layer.holders[0] for layer in inspect(file).layers)
    assert (after.format, after.possible, after.row, after.same_bits) == ("plain", True, "plain.GRU", True)
    assert not before.possible
    assert "two different functions" in before.reasons[0]
    assert len(lstm.reasons) == 2


def test_it_shows_evidence_and_what_overrides_an_assumption(file: Path) -> None:
    found = inspect(file)
    assert found.layers[0].evidence == ("said so",)
    assert "--set after.order=VALUE" in repr(found)
    assert "said so" in repr(found)
    assert "dense [2, 3] float64" in repr(found)
    assert "a stand-in" in repr(found)
    assert inspect(file, {"order": "ifgo"}).layers[0].assumptions == ()


def test_it_is_data(file: Path) -> None:
    plain = json.loads(json.dumps(inspect(file).to_dict(), allow_nan=False))
    assert [layer["name"] for layer in plain["layers"]] == ["after", "before", "lstm"]
    assert plain["layers"][1]["spec"]["reset"] == "before"
    assert plain["layers"][0]["assumptions"][0]["key"] == "order"
    assert plain["tensors"] == {"dense": "[2, 3] float64"}


def test_a_source_where_z_takes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = standin._row("gru", "rzn", reset=("after",), z="takes", activations=(("sigmoid",), ("tanh",)))
    monkeypatch.setattr(standin, "ROWS", (turned, standin.ROWS[0]))
    standin.install(monkeypatch, standin.plain_format("plain"))
    layer = inspect(file).layers[0]
    assert layer.rewrites == ("flip update gate",)
    assert layer.gru_class == "reset after, z takes"
    assert layer.formula[1] == "h' = (1 - z) h + z n"
    said = [str(rewrite) for rewrite in verify(file, file).rewrites]
    for side in ("source", "target"):
        assert f"after: flip update gate, on reading the {side} (same bits on the way back)" in said


def test_every_row_and_format_of_the_real_catalogue_prints() -> None:
    rows = tables.conventions()
    assert [row["name"] for row in rows] == list(catalogue().rows)
    assert json.loads(json.dumps(list(rows)))
    for name in (row["name"] for row in rows):
        whole = [name] if len(name) <= tables.NAME_WIDTH else name.split()
        assert all(part in repr(rows) for part in whole)
    known = tables.formats()
    assert [one["name"] for one in known] == list(catalogue().formats)
    assert json.loads(json.dumps(list(known)))


def test_one_frameworks_rows_come_with_their_sources() -> None:
    framework = next(iter(catalogue().rows.values())).framework
    rows = tables.conventions(framework)
    assert {row["framework"] for row in rows} == {framework}
    words = " ".join(repr(rows).split())
    assert all(" ".join(row["source"].split()) in words for row in rows)
    with pytest.raises(ArgumentError, match=f"there are rows for .*{framework}"):
        tables.conventions("no such framework")


@pytest.mark.parametrize("width", [80, 100])
def test_tables_are_folded_and_never_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = repr(tables.conventions())
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    squeezed = "".join(text.split())
    for row in tables.conventions():
        assert "".join(row["formula"][-1].split()[-1:]) in squeezed


def test_what_is_to_be_copied_stays_in_one_piece() -> None:
    line = "torch.nn.GRU(24, 31, num_layers=2, batch_first=True)  # " + "long " * 30
    assert tables.as_text(Group(tables.indented(line, whole=True)), width=80) == f"  {line}".rstrip()
    folded = tables.as_text(Group(tables.indented(line)), width=80).splitlines()
    assert len(folded) == 3
    assert all(part.startswith("  ") for part in folded)
