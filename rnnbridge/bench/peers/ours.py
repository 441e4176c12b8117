"""The engine at the level of `rb.Plan`: arrays are made once and used in every call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge import _native
from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem
from rnnbridge.engine import Plan, aligned_empty

Array = NDArray[Any]


def prepare(problem: Problem) -> Prepared:
    """Weights are packed once for inference, and in every call of training."""
    case, trains = problem.case, problem.case.mode != "inference"
    plan = Plan(case.spec, case.T, case.N, training=trains, dtype=case.dtype)
    run = _Run(problem, plan)
    call = {"inference": run.forward, "forward": run.packed_forward, "training": run.train}[case.mode]
    return Prepared(call, run.outputs, f"instruction set {_native.build_info()['isa']['active']}")


class _Run:
    def __init__(self, problem: Problem, plan: Plan) -> None:
        case = problem.case
        self._problem, self._plan = problem, plan
        self._packed = plan.pack(problem.weights)
        self._workspace = aligned_empty(plan.workspace_nbytes)
        self._tape = aligned_empty(plan.tape_nbytes) if plan.training else None
        self._y = np.empty((case.T, case.N, case.spec.output_size), case.dtype)
        self._h = np.empty(plan.state_shape, case.dtype)
        self._c = np.empty(plan.state_shape, case.dtype) if case.spec.has_cell_state else None
        self._gradients: Mapping[str, Array] = {}
        if case.mode == "training":
            self._gradients = {name: np.empty_like(array) for name, array in problem.weights.items()}
        self._dx = np.empty_like(problem.x)
        self.forward = plan.bind(
            problem.x,
            packed=self._packed,
            workspace=self._workspace,
            y=self._y,
            lengths=problem.lengths,
            hn=self._h,
            cn=self._c,
            tape=self._tape,
            threads=case.threads,
        )

    def packed_forward(self) -> None:
        self._plan.pack(self._problem.weights, self._packed)
        self.forward()

    def train(self) -> None:
        self.packed_forward()
        assert self._tape is not None
        self._plan.backward(
            self._problem.x,
            packed=self._packed,
            workspace=self._workspace,
            tape=self._tape,
            y=self._y,
            dy=self._problem.dy,
            dx=self._dx,
            dweights=self._gradients,
            threads=self._problem.case.threads,
        )

    def outputs(self) -> dict[str, Array]:
        found = {"y": self._y, "h": self._h} | ({} if self._c is None else {"c": self._c})
        if self._gradients:
            found |= {"dx": self._dx} | {f"d{name}": array for name, array in self._gradients.items()}
        return found
