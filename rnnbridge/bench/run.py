"""The whole run: every case on every peer, checked, then timed in pairs with ours. Draws nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from rnnbridge.bench import pairs
from rnnbridge.bench.cases import Case, check
from rnnbridge.bench.check import Expected, compare, expected
from rnnbridge.bench.peer import Peer
from rnnbridge.bench.peers import OURS, PEERS
from rnnbridge.bench.problem import Problem, load_arrays, problem_of, save_arrays
from rnnbridge.bench.results import Row, timed_row
from rnnbridge.bench.worker import case_message
from rnnbridge.bench.workers import WorkerError, WorkerProcess
from rnnbridge.errors import ArgumentError

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How it is measured.

    Args:
        blocks: pairs of each case with each peer.
        seconds: that each side of a pair takes, at least.
        time_limit: that one answer of a peer may take, in seconds.
    """

    blocks: int = 25
    seconds: float = 0.03
    time_limit: float = 600


SHORT = Settings(blocks=7, seconds=0.015)


def run(
    cases: Iterable[Case], settings: Settings, peers: Sequence[Peer] = PEERS, tell: Tell | None = None
) -> Iterator[Row]:
    """Measure.

    Args:
        tell: is called with what is being done.

    Yields:
        A row for every case and peer as it is done: also where a peer is missing, refuses, fails or is wrong.

    Raises:
        ArgumentError: a case that is none.
        WorkerError: our own engine failed.
    """
    cases = list(cases)
    refuse = [f"{case.shape}: {wrong}" for case in cases for wrong in check(case)]
    if refuse:
        raise ArgumentError("; ".join(dict.fromkeys(refuse)))
    for threads in sorted({case.threads for case in cases}):
        with Run(threads, settings, tell or (lambda _: None)) as one:
            for case in cases:
                if case.threads == threads:
                    yield from one.measure(case, peers)


class Run:
    """The workers with one number of threads; they live from case to case."""

    def __init__(self, threads: int, settings: Settings, tell: Tell) -> None:
        self._threads, self._settings, self._tell = threads, settings, tell
        self._workers: dict[str, WorkerProcess] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="rnnbridge-bench-")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()
        self._folder.cleanup()

    def measure(self, case: Case, peers: Sequence[Peer]) -> Iterator[Row]:
        """One case on every peer."""
        self._tell(f"{case.cell} {case.shape} {case.mode}, float64")
        problem, wanted = problem_of(case), _expected(replace(case, threads=1))
        arrays = {"x": problem.x, "dy": problem.dy, **problem.weights}
        arrays |= {} if problem.lengths is None else {"lengths": problem.lengths}
        save_arrays(self._file("problem"), arrays)
        ours = self._check(OURS, problem, wanted)
        if ours.wrong:
            raise WorkerError(f"rnnbridge itself is wrong at {case}: {'; '.join(ours.wrong)}")
        for peer in peers:
            self._tell(f"{case.cell} {case.shape} {case.mode}, {case.threads} thread(s): {peer.name}")
            yield self._beside(peer, problem, wanted, ours)

    def _beside(self, peer: Peer, problem: Problem, wanted: Expected, ours: Checked) -> Row:
        case = problem.case
        row = Row(case, peer.name, "absent", error_ours=ours.relative, errors_ours=ours.errors)
        if why := peer.missing():
            return replace(row, why=why)
        if case.mode not in peer.modes:
            return replace(row, status="refused", why=f"it has no {case.mode}")
        try:
            found = self._check(peer, problem, wanted)
            row = replace(row, version=found.version, flags=found.flags)
            if found.refused or found.wrong:
                return replace(
                    row, status="refused" if found.refused else "wrong", why="; ".join(found.refused or found.wrong)
                )
            row = replace(row, error_peer=found.relative, errors_peer=found.errors)
            measured = pairs.measure(
                self._worker(OURS.name),
                self._worker(peer.name),
                self._settings.blocks,
                self._settings.seconds,
                case.dtype,
                case.threads,
            )
        except WorkerError as error:
            self._drop(peer.name)
            return replace(row, status="failed", why=str(error))
        return timed_row(row, measured)

    def _check(self, peer: Peer, problem: Problem, wanted: Expected) -> Checked:
        """Make the case ready on a peer and hold its outputs against the float64 ones."""
        worker, case = self._worker(peer.name), problem.case
        said = worker.ask("prepare", case=case_message(case), problem=str(self._file("problem")))
        if "refused" in said:
            return Checked(refused=tuple(said["refused"]))
        worker.ask("outputs", to=str(self._file("outputs")))
        finding = compare(load_arrays(self._file("outputs")), wanted, case.mode == "training", peer.approximate)
        return Checked(*finding, version=said["version"], flags=said["flags"])

    def _worker(self, name: str) -> WorkerProcess:
        if name not in self._workers:
            self._workers[name] = WorkerProcess(name, self._threads, self._settings.time_limit)
        return self._workers[name]

    def _drop(self, name: str) -> None:
        if name in self._workers:
            self._workers.pop(name).close()

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.npz"


@dataclass(frozen=True)
class Checked:
    """What a peer's outputs were found to be, and what it says of itself."""

    errors: Mapping[str, float] = field(default_factory=dict)
    relative: float | None = None
    wrong: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    version: str = ""
    flags: str = ""


@lru_cache(maxsize=1)
def _expected(case: Case) -> Expected:
    return expected(problem_of(case))
