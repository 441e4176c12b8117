"""Keras 3 on TensorFlow: the layer inside a tf.function, batch first as Keras has it, a mask where lengths differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.bench.peer import Prepared
from rnnbridge.bench.problem import Problem
from rnnbridge.bundle import from_framework, to_framework
from rnnbridge.errors import Incompatible
from rnnbridge.weights import stack

Array = NDArray[Any]


def prepare(problem: Problem) -> Prepared:
    """What `rb.to_framework` makes of the weights. Keras's LSTM has one bias: ours, added."""
    import keras
    import tensorflow

    threads = problem.case.threads
    if tensorflow.config.threading.get_intra_op_parallelism_threads() != threads:
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    if problem.lengths is not None and problem.case.bidirectional:
        raise Incompatible("Keras", ["a mask and two directions are not measured"])
    keras.config.set_floatx(problem.case.dtype)  # a Sequential would cast to it
    run = _Run(tensorflow, problem)
    calls: dict[str, Callable[[], None]] = {"inference": run.infer, "forward": run.forward, "training": run.train}
    return Prepared(calls[problem.case.mode], run.outputs, f"TensorFlow {tensorflow.__version__}, {threads} threads")


class _Run:
    def __init__(self, tensorflow: Any, problem: Problem) -> None:
        self._layer = to_framework(problem.to_weights(), "keras", batch_first=True)
        T, N = problem.x.shape[:2]
        valid = np.ones((N, T), bool) if problem.lengths is None else np.arange(T) < problem.lengths[:, None]
        mask = None if problem.lengths is None else tensorflow.constant(valid)
        self._valid = valid[..., None]
        self._x, self._dy = (tensorflow.constant(one.transpose(1, 0, 2)) for one in (problem.x, problem.dy))
        self._found: list[Any] = []

        def forward(x: Any, training: bool) -> Any:
            return self._layer(x, training=training, **({} if mask is None else {"mask": mask}))

        def gradients(x: Any, dy: Any) -> Any:
            with tensorflow.GradientTape() as tape:
                tape.watch(x)
                y = forward(x, True)
            return y, tape.gradient(y, [x, *self._variables], output_gradients=dy)

        forward(self._x, False)
        self._variables = [one.value for one in self._layer.trainable_variables]
        self._forward, self._gradients = tensorflow.function(forward), tensorflow.function(gradients)

    def infer(self) -> None:
        self._found = [self._forward(self._x, False)]

    def forward(self) -> None:
        self._found = [self._forward(self._x, True)]

    def train(self) -> None:
        y, (dx, *weights) = self._gradients(self._x, self._dy)
        self._found = [y, dx, weights]

    def outputs(self) -> dict[str, Array]:
        y = np.asarray(self._found[0]) * self._valid
        found = {"y": y.transpose(1, 0, 2)}
        if len(self._found) > 1:
            found["dx"] = np.asarray(self._found[1]).transpose(1, 0, 2)
            found |= {f"d{name}": array for name, array in self._canonical(self._found[2]).items()}
        return found

    def _canonical(self, gradients: list[Any]) -> dict[str, Array]:
        """Gradients lie as their weights do, so that a layer with them as weights is read by the same row."""
        weights = self._layer.get_weights()
        self._layer.set_weights([np.asarray(one) for one in gradients])
        read = stack([from_framework(one) for one in getattr(self._layer, "layers", [self._layer])])
        self._layer.set_weights(weights)
        return dict(read.arrays)
