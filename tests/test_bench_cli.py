"""`rnnbridge bench` as people type it, with real workers on tiny shapes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from rnnbridge.bench.cases import Case, check, grid, short_grid
from rnnbridge.bench.pairs import Pairs
from rnnbridge.bench.peers import named
from rnnbridge.bench.plot import plot
from rnnbridge.bench.results import Row, table, timed_row, write_json
from rnnbridge.cli import main
from rnnbridge.cli.bench import _cases
from rnnbridge.errors import FileAccessError
from rnnbridge.tables import as_text

Capture = pytest.CaptureFixture[str]
TINY = ("bench", "--shape", "7,3,5,2", "--blocks", "1")
HERE = "onnxruntime" if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx") else "pytorch"


def row_of(status: str = "timed", peer: str = "pytorch", **changes: object) -> Row:
    row = Row(Case("gru", 7, 3, 5, 2), peer, "failed", error_ours=1e-7, error_peer=2e-7, version="1.2", **changes)
    if status != "timed":
        return Row(row.case, peer, status, why="it says so")  # type: ignore[arg-type]
    return timed_row(row, Pairs([0.001, 0.002, 0.004], [0.003, 0.002, 0.008], [1e9] * 3, [2e9] * 3))


@pytest.mark.skipif(named(HERE).missing() is not None, reason=f"{HERE} is not installed")
def test_a_tiny_run_from_end_to_end(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.json"
    assert main([*TINY, "--peer", HERE, "--mode", "inference", "--cell", "lstm,gru", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "lstm 7,3,5,2" in text
    assert f"versions: {HERE}" in text
    found = json.loads(out.read_text())
    assert found["machine"]["rnnbridge"]
    assert [(row["case"]["cell"], row["peer"], row["status"]) for row in found["rows"]] == [
        ("lstm", HERE, "timed"),
        ("gru", HERE, "timed"),
    ]
    for row in found["rows"]:
        assert row["ratio"]["median"] == row["pairs"]["other"][0] / row["pairs"]["ours"][0]
        assert 0 < row["error_ours"] < 1e-5
        assert "y" in row["errors_ours"].keys() & row["errors_peer"].keys()


def test_who_is_not_here_is_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RNNBRIDGE_BENCH_ONEDNN", raising=False)
    assert main([*TINY, "--peer", "onednn"]) == 0
    assert "onednn is not here: RNNBRIDGE_BENCH_ONEDNN names no file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--shape", "7,3,5"), "is not T,N,I,H"),
        (("--shape", "7,3,5,0"), "at least 1"),
        (("-T", "7"), "N, I, H was not given"),
        (("--cell", "lstm,gro"), "'gro' is none of lstm, gru, gru-before, rnn"),
        (("--threads", "one"), "'one' is not a list of numbers"),
        (("--mode", "backward"), "'backward' is none of inference, forward, training"),
        (("--peer", "nobody"), "'nobody' is not one of"),
    ],
)
def test_wrong_usage_is_said(arguments: tuple[str, ...], said: str, capsys: Capture) -> None:
    assert main(["bench", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_place_that_cannot_be_written_is_an_error_before_the_run(tmp_path: Path, capsys: Capture) -> None:
    assert main([*TINY, "--json", str(tmp_path / "no" / "out.json")]) == 1
    assert "cannot write" in capsys.readouterr().err
    with pytest.raises(FileAccessError):
        write_json(tmp_path, [], {})


def test_options_become_cases() -> None:
    asked = {
        **dict.fromkeys("TNIH"),
        "shape": None,
        "cell": ("gru", "rnn"),
        "mode": ("forward",),
        "threads": (1, 2),
        "layers": 3,
        "bidirectional": True,
        "lengths": "heavy",
        "dtype": "float64",
    }
    found = _cases(False, {**asked, "T": 7, "N": 3, "H": 5})
    assert [(one.cell, one.threads) for one in found] == [("gru", 1), ("gru", 2), ("rnn", 1), ("rnn", 2)]
    assert {(one.I, one.layers, one.bidirectional, one.lengths) for one in found} == {(5, 3, True, "heavy")}
    assert _cases(False, {**asked, "shape": (7, 3, 11, 5)})[0].I == 11
    assert _cases(True, asked) == list(short_grid())
    assert _cases(False, asked) == list(grid())


def test_the_grids_are_of_cases() -> None:
    for cases in (list(grid()), list(short_grid())):
        assert len(set(cases)) == len(cases)
        assert not any(check(case) for case in cases)


def test_the_table_shows_what_was_lost_too() -> None:
    rows = [row_of(), row_of("absent", "onednn"), row_of("refused", "keras"), row_of("wrong", "torchscript")]
    text = as_text(table([*rows, rows[1]], {"CPU": "of mine"}), width=140)
    line = next(line for line in text.splitlines() if line.startswith("gru 7,3,5,2"))
    # best 2 over 1; pairs 3, 1, 2; operations of 2 x 6 x 7 x 21 over 1e9 a second and 1, 2, 4 ms
    assert line.split()[2:] == "inference 1 pytorch 1 2 2.00 2.00 [1.00 3.00] 0 0 1e-07 2e-07".split()
    assert text.count("onednn is not here: it says so") == 1
    assert "keras cannot: it says so" in text
    assert "torchscript is wrong and not timed, gru 7,3,5,2 inference 1: it says so" in text
    assert "75.0%" in text
    assert "CPU: of mine" in text


def test_of_the_peak() -> None:
    row = row_of()
    work = row.case.operations()
    assert row.peak_best == pytest.approx(work / 0.001 / 1e9)
    assert row.peak_median == pytest.approx(work / 0.002 / 1e9)


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    plot([row_of(), row_of(peer="keras"), row_of("absent", "onednn")], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FileAccessError, match="cannot write"):
        plot([row_of()], tmp_path / "no" / "a.png")
