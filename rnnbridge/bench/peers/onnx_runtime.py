"""ONNX Runtime: a model written by rnnbridge; inputs and outputs stay ONNX Runtime's own values, nothing is copied."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem
from rnnbridge.bundle import save
from rnnbridge.errors import Incompatible

Array = NDArray[Any]


def prepare(problem: Problem) -> Prepared:
    """A session on the CPU provider."""
    import onnxruntime

    if problem.case.dtype != "float32":
        raise Incompatible("ONNX Runtime", ["its LSTM, GRU and RNN take float32 only"])
    session = _session(onnxruntime, problem)
    inputs = {"x": problem.x}
    if problem.lengths is not None:
        inputs["lengths"] = problem.lengths.astype(np.int32)
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
    names = [one.name for one in session.get_outputs()]
    last: list[Any] = []

    def call() -> None:
        last[:] = session.run_with_ort_values(names, values)

    def outputs() -> dict[str, Array]:
        return {name: value.numpy() for name, value in zip(names, last, strict=True)}

    return Prepared(call, outputs, f"{problem.case.threads} threads")


def _session(onnxruntime: Any, problem: Problem) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = problem.case.threads, 1
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(prefix="rnnbridge-bench-") as folder:
        path = Path(folder) / "model.onnx"
        lengths = "false" if problem.lengths is None else "true"
        save(problem.to_weights(), path, settings={"lengths": lengths, "initial_state": "false"})
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
