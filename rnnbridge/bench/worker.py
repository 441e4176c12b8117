"""What runs in a peer's process: `python -m rnnbridge.bench.worker PEER CPUS`.

Reads one JSON object a line from standard input and answers each with one line; ends where the input does. What a
framework prints goes to standard error. `workers.py` is the other side.

    {"do": "prepare", "case": {...}, "problem": FILE}   {"version": "2.13.0", "flags": "..."} or {"refused": [...]}
    {"do": "outputs", "to": FILE}                       {}
    {"do": "time", "calls": n}                          {"seconds": s}, after one call that is not timed
    {"do": "limits", "dtype": ..., "threads": n}        {"operations": per second, "bytes": per second}
    anything that goes wrong                            {"failure": "..."}
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from rnnbridge.bench.cases import Case
from rnnbridge.bench.limits import Limits
from rnnbridge.bench.peer import Peer, Prepared
from rnnbridge.bench.peers import named
from rnnbridge.bench.problem import Problem, load_arrays, save_arrays
from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.version import version_of

Message = dict[str, Any]


class Worker:
    """One peer and the case it was last given."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._prepared: Prepared | None = None
        self._limits: Limits | None = None

    def answer(self, message: Message) -> Message:
        """What to say to one message."""
        known: dict[str, Callable[..., Message]] = {
            "prepare": self._prepare,
            "outputs": self._outputs,
            "time": self._time,
            "limits": self._measure_limits,
        }
        given = dict(message)
        do = given.pop("do", None)
        try:
            if do not in known:
                raise ArgumentError(f"do is {do!r}; it is one of {', '.join(known)}")
            return known[do](**given)
        except Exception as error:  # noqa: BLE001 (whatever a framework raises is the answer)
            return {"failure": "".join(traceback.format_exception_only(error)).strip()}

    def _prepare(self, case: Message, problem: str) -> Message:
        self._prepared = None  # the last one's memory goes first
        arrays = load_arrays(Path(problem))
        given = {one: arrays.pop(one, None) for one in ("x", "dy", "lengths")}
        try:
            self._prepared = self._peer.prepare(Problem(Case(**case), arrays, **given))  # type: ignore[arg-type]
        except Incompatible as refusal:
            return {"refused": list(refusal.reasons or (str(refusal),))}
        distribution = self._peer.distribution or self._peer.needs
        return {"version": version_of(distribution) or "", "flags": self._prepared.flags}

    def _outputs(self, to: str) -> Message:
        prepared = self._ready()
        prepared.call()
        save_arrays(Path(to), prepared.outputs())
        return {}

    def _time(self, calls: int) -> Message:
        call = self._ready().call
        call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return {"seconds": time.perf_counter() - start}

    def _measure_limits(self, dtype: str, threads: int) -> Message:
        if self._limits is None or (self._limits.dtype, self._limits.threads) != (dtype, threads):
            self._limits = Limits(dtype, threads)
        return self._limits.measure()

    def _ready(self) -> Prepared:
        if self._prepared is None:
            raise ArgumentError("no case was prepared")
        return self._prepared


def case_message(case: Case) -> Message:
    """A case as it crosses."""
    return {field.name: getattr(case, field.name) for field in fields(case)}


def serve(worker: Worker, questions: TextIO, answers: TextIO) -> None:
    """Answer until the other side closes."""
    for line in questions:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def main(peer: str, cpus: str) -> None:
    """Pin this process, keep the answers' pipe to ourselves, and serve."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(Worker(named(peer)), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
