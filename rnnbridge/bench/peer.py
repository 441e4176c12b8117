"""What a peer is: a name, what must be installed for it, and one function that makes a case ready to be run.

Each peer is one file in `peers/` with `prepare(problem) -> Prepared`. It runs in a process of its own and imports its
framework there; nothing else of the benchmark does.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from rnnbridge.bench.problem import Problem

Array = NDArray[Any]


class Prepared(NamedTuple):
    """A case made ready.

    Args:
        call: runs it once. What lies outside is not timed: making the layer, its weights, the sequences.
        outputs: of the last call, by the names of `truth`: "y", "h", "c", and in training "dx" and "d" + a weight's.
            States may be missing, and "dbias_hh" where a peer has one bias.
        flags: what the peer was told, for the record.
    """

    call: Callable[[], object]
    outputs: Callable[[], Mapping[str, Array]]
    flags: str = ""


@dataclass(frozen=True)
class Peer:
    """One implementation to be measured.

    Args:
        name: what a user calls it.
        what: what it is, in words.
        module: of this package, with `prepare`.
        needs: what must be importable for it.
        distribution: whose version is recorded, None for `needs`.
        variable: an environment variable that must name a file, where one is needed besides.
        modes: that it has.
        approximate: computes with fewer bits than the case's dtype, by design.
    """

    name: str
    what: str
    module: str
    needs: str
    distribution: str | None = None
    variable: str | None = None
    modes: tuple[str, ...] = ("inference", "forward", "training")
    approximate: bool = False

    def missing(self) -> str | None:
        """Why it cannot be here at all, or None."""
        if not importlib.util.find_spec(self.needs):
            return f"{self.needs} is not installed"
        if self.variable and not os.path.isfile(os.environ.get(self.variable, "")):  # noqa: PTH113 (may be "")
            return f"{self.variable} names no file (make bench builds it)"
        return None

    def prepare(self, problem: Problem) -> Prepared:
        """Import the peer and make a case ready.

        Raises:
            Incompatible: it does not have this case.
        """
        prepared: Prepared = importlib.import_module(self.module).prepare(problem)
        return prepared
