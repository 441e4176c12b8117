"""The workers' protocol, and that nobody is timed who is not right. Peers of our own making stand in for frameworks."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnbridge.bench import run as running
from rnnbridge.bench.cases import Case
from rnnbridge.bench.check import compare, expected
from rnnbridge.bench.pairs import measure
from rnnbridge.bench.peer import Peer, Prepared
from rnnbridge.bench.peers import OURS, PEERS, named
from rnnbridge.bench.problem import Problem, load_arrays, problem_of, save_arrays
from rnnbridge.bench.truth import truth
from rnnbridge.bench.worker import Worker, case_message, serve
from rnnbridge.bench.workers import WorkerError, WorkerProcess, pinned_to
from rnnbridge.errors import ArgumentError, Incompatible

CASE = Case("gru", T=7, N=3, I=5, H=2, mode="training")


class Standin(Peer):
    """Answers with the float64 outputs in the case's dtype, changed by `spoil`."""

    spoil: Any = staticmethod(lambda outputs: outputs)
    calls = 0

    def missing(self) -> str | None:
        return None

    def prepare(self, problem: Problem) -> Prepared:
        if problem.case.cell == "rnn":
            raise Incompatible("the stand-in", ["it has no rnn"])
        found = {name: array.astype(problem.case.dtype) for name, array in truth(problem).items()}
        return Prepared(self.count, lambda: type(self).spoil(found), "flags")

    @classmethod
    def count(cls) -> None:
        cls.calls += 1


@pytest.fixture
def standin() -> Iterator[Standin]:
    yield Standin("standin", "for tests", "nowhere", "numpy")
    Standin.spoil, Standin.calls = staticmethod(lambda outputs: outputs), 0


class Inside:
    """A worker in this process."""

    def __init__(self, peer: Peer) -> None:
        self._worker = Worker(peer)

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        answer = self._worker.answer(json.loads(json.dumps({"do": do, **what})))
        if "failure" in answer:
            raise WorkerError(answer["failure"])
        return answer

    def close(self) -> None:
        pass


def saved(problem: Problem, folder: Path) -> str:
    path = folder / "problem.npz"
    save_arrays(path, {**problem.weights, "x": problem.x, "dy": problem.dy})
    return str(path)


def test_a_worker_prepares_runs_and_times(standin: Standin, tmp_path: Path) -> None:
    worker = Inside(standin)
    said = worker.ask("prepare", case=case_message(CASE), problem=saved(problem_of(CASE), tmp_path))
    assert said["flags"] == "flags"
    assert said["version"] == np.__version__
    worker.ask("outputs", to=str(tmp_path / "outputs.npz"))
    found = compare(load_arrays(tmp_path / "outputs.npz"), expected(problem_of(CASE)), training=True)
    assert found.wrong == ()
    Standin.calls = 0
    assert worker.ask("time", calls=4)["seconds"] > 0
    assert Standin.calls == 5, "one call is not timed"


def test_a_worker_says_what_it_cannot_and_what_went_wrong(standin: Standin, tmp_path: Path) -> None:
    worker, case = Inside(standin), replace(CASE, cell="rnn")
    said = worker.ask("prepare", case=case_message(case), problem=saved(problem_of(case), tmp_path))
    assert said == {"refused": ["it has no rnn"]}
    with pytest.raises(WorkerError, match="no case was prepared"):
        worker.ask("time", calls=1)
    with pytest.raises(WorkerError, match="one of prepare, outputs, time, limits"):
        worker.ask("fly")
    with pytest.raises(WorkerError, match="FileNotFoundError"):
        worker.ask("prepare", case=case_message(CASE), problem="nowhere.npz")


def test_a_line_for_a_line(standin: Standin) -> None:
    answers = io.StringIO()
    serve(Worker(standin), io.StringIO('{"do": "time", "calls": 1}\n{"do": null}\n'), answers)
    assert [list(json.loads(line)) for line in answers.getvalue().splitlines()] == [["failure"], ["failure"]]


def test_ours_in_its_process_is_pinned_and_right(tmp_path: Path) -> None:
    problem = problem_of(CASE)
    with WorkerProcess(OURS.name, 1) as worker:
        worker.ask("prepare", case=case_message(CASE), problem=saved(problem, tmp_path))
        if hasattr(os, "sched_getaffinity"):
            assert os.sched_getaffinity(worker.pid) == set(pinned_to(1))
        worker.ask("outputs", to=str(tmp_path / "outputs.npz"))
        assert compare(load_arrays(tmp_path / "outputs.npz"), expected(problem), training=True).wrong == ()
        for dtype in ("float32", "float64"):
            limits = worker.ask("limits", dtype=dtype, threads=1)
            assert set(limits) == {"operations", "bytes"}
            assert min(limits.values()) > 0


def test_a_process_that_ends_or_hangs_is_an_error() -> None:
    with (
        WorkerProcess("no such peer", 1) as worker,
        pytest.raises(WorkerError, match=r"ended with 1\n(.*\n)*.*StopIteration"),
    ):
        worker.ask("time", calls=1)
    with WorkerProcess(OURS.name, 1, time_limit=0) as worker, pytest.raises(WorkerError, match="more than 0 s"):
        worker.ask("time", calls=1)


def test_pairs_alternate() -> None:
    order: list[str] = []

    class Side:
        def __init__(self, name: str, seconds: float) -> None:
            self.name, self.seconds = name, seconds

        def ask(self, do: str, **what: Any) -> dict[str, Any]:
            order.append(self.name if do == "time" else do)
            if do == "limits":
                return {"operations": float(len(order)), "bytes": 1.0}
            return {"seconds": self.seconds * what["calls"]}

    found = measure(Side("a", 0.5), Side("b", 0.25), blocks=3, seconds=1.0, dtype="float32", threads=1)
    assert order[:4] == ["a", "a", "b", "b"], "how long one call takes"
    assert order[4:] == "limits a b limits b a limits a b limits".split()
    assert (found.ours, found.other) == ([0.5] * 3, [0.25] * 3)
    assert found.operations == [6.5, 9.5, 12.5], "the mean of before and after"


@pytest.fixture
def one_run(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rows of CASE on a stand-in, in this process."""
    inside = {OURS.name: OURS, "standin": standin}
    monkeypatch.setattr(running, "WorkerProcess", lambda name, *_: Inside(inside[name]))

    def rows(case: Case = CASE, peer: Peer = standin) -> list[Any]:
        return list(running.run([case], running.Settings(blocks=3, seconds=0.0001), [peer]))

    return rows


def test_a_right_peer_is_timed(one_run: Any) -> None:
    (row,) = one_run()
    assert row.status == "timed"
    assert len(row.pairs.ours) == len(row.pairs.other) == 3
    assert row.ratio.low <= row.ratio.median <= row.ratio.high
    assert row.error_ours > 0


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda found: {**found, "y": found["y"] * np.float32(1.001)}, "y is off by"),
        (lambda found: {**found, "dweight_hh_l0": found["dweight_hh_l0"][::-1]}, "dweight_hh_l0 is off by"),
        (lambda found: {**found, "h": found["h"] * np.float32("nan")}, "h is off by inf"),
        (lambda found: {**found, "y": found["y"][:-1]}, "y is off by inf"),
        (lambda found: {name: one for name, one in found.items() if name != "dx"}, "it gave no dx"),
        (lambda found: {**found, "dz": found["y"]}, "dz is unknown"),
    ],
    ids=["y", "gradient", "NaN", "shape", "missing", "unknown"],
)
def test_a_wrong_peer_is_not_timed(one_run: Any, spoil: Any, why: str) -> None:
    Standin.spoil = staticmethod(spoil)
    (row,) = one_run()
    assert row.status == "wrong"
    assert why in row.why
    assert row.ratio is None
    assert Standin.calls == 1, "its outputs alone"


def test_approximate_arithmetic_has_its_own_room() -> None:
    wanted = expected(problem_of(CASE))
    off = {"y": wanted.exact["y"] + 0.01 * np.abs(wanted.exact["y"]).max()}
    assert compare(off, wanted, training=False).wrong
    assert not compare(off, wanted, training=False, approximate=True).wrong
    assert compare({"y": wanted.exact["y"] + 0.2 * np.abs(wanted.exact["y"]).max()}, wanted, False, True).wrong


def test_who_cannot_or_is_not_here_is_said(one_run: Any) -> None:
    (row,) = one_run(replace(CASE, cell="rnn"))
    assert (row.status, row.why) == ("refused", "it has no rnn")
    (row,) = one_run(peer=Peer("ghost", "", "nowhere", "a_module_that_nobody_has"))
    assert (row.status, row.why) == ("absent", "a_module_that_nobody_has is not installed")
    (row,) = one_run(peer=replace(named("onnxruntime"), needs="numpy"))
    assert (row.status, row.why) == ("refused", "it has no training")


def test_our_own_wrong_numbers_end_the_run(one_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "OURS", Standin(OURS.name, "", "nowhere", "numpy"))
    Standin.spoil = staticmethod(lambda found: {**found, "y": -found["y"]})
    monkeypatch.setattr(running, "WorkerProcess", lambda name, *_: Inside(running.OURS))
    with pytest.raises(WorkerError, match="rnnbridge itself is wrong"):
        one_run()


def test_a_case_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(ArgumentError, match="T is 0; it is at least 1"):
        list(running.run([replace(CASE, T=0)], running.SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("peer", [one for one in PEERS if one.missing() is None], ids=lambda one: one.name)
def test_every_peer_that_is_here_gives_right_numbers(peer: Peer) -> None:
    shapes = [{}, {"layers": 2, "bidirectional": True}, {"lengths": "uniform", "N": 1}, {"dtype": "float64"}]
    cases = [replace(CASE, mode=mode, **one) for mode in peer.modes for one in shapes]  # type: ignore[arg-type]
    cases.append(replace(CASE, cell="lstm", mode=peer.modes[-1]))
    rows = list(running.run(cases, running.Settings(blocks=1, seconds=0.0001), [peer]))
    assert {row.status for row in rows} <= {"timed", "refused"}, [row.why for row in rows]
    assert rows[0].status == "timed"
