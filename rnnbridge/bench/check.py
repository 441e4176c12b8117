"""Whether a peer's outputs are right, before any time of it counts. Knows no peer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.problem import Problem
from rnnbridge.bench.truth import truth
from rnnbridge.proof.tolerance import for_dtype, max_abs_error, tolerance_between

Array = NDArray[Any]
# How far arithmetic that is approximate by design may be off, of the largest value.
APPROXIMATE = 0.1


class Expected(NamedTuple):
    """A case's outputs in float64, and how far a correct run may be off in each."""

    exact: dict[str, Array]
    tolerance: dict[str, float]


class Finding(NamedTuple):
    """What comparing found.

    Args:
        errors: output -> largest absolute error.
        relative: the largest of them, each over the largest value of its output.
        wrong: what is not as it should be; empty if a time may count.
    """

    errors: dict[str, float]
    relative: float
    wrong: tuple[str, ...]


def expected(problem: Problem) -> Expected:
    """The tolerance is computed as in every proof: from the error of plain float32 arithmetic on these numbers."""
    exact, rough = truth(problem), truth(problem, np.float32)
    dtype = problem.case.dtype
    return Expected(exact, {name: for_dtype(tolerance_between(exact[name], rough[name]), dtype) for name in exact})


def compare(outputs: Mapping[str, Array], wanted: Expected, training: bool, approximate: bool = False) -> Finding:
    """Hold a peer's outputs against the expected ones.

    Args:
        training: gradients are asked for, not outputs alone.
        approximate: allow `APPROXIMATE`.
    """
    wrong = [f"it gave no {name}" for name in _required(wanted, training) if name not in outputs]
    wrong += [f"{name} is unknown" for name in outputs if name not in wanted.exact]
    errors, relative = {}, 0.0
    for name in (one for one in outputs if one in wanted.exact):
        exact = wanted.exact[name]
        largest = float(np.abs(exact).max(initial=0.0))
        error = max_abs_error(np.asarray(outputs[name]), exact)
        allowed = APPROXIMATE * largest if approximate else wanted.tolerance[name]
        if not error <= allowed:
            wrong.append(f"{name} is off by {error:.1e}; {allowed:.1e} is allowed")
        errors[name] = error
        relative = max(relative, error / largest if largest else error)
    return Finding(errors, relative, tuple(wrong))


def _required(wanted: Expected, training: bool) -> list[str]:
    gradients = [name for name in wanted.exact if name == "dx" or name.startswith(("dweight", "dbias_ih"))]
    return ["y", *gradients] if training else ["y"]
