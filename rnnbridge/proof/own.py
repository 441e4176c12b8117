"""rnnbridge's own run of a layer: on the engine, or in the float64 reference where the engine is missing or cannot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnbridge import engine, layers
from rnnbridge.errors import NativeError
from rnnbridge.proof.samples import Sample
from rnnbridge.proof.tolerance import Outputs, run_reference
from rnnbridge.weights import RNNWeights

ENGINE, REFERENCE = "rnnbridge engine", "rnnbridge reference"


@dataclass(frozen=True)
class OwnRun:
    """Who ran, the outputs of every sample, and why it was not the engine ("" where it was)."""

    runner: str
    outputs: list[Outputs]
    instead: str = ""


def run(name: str, weights: RNNWeights, samples: list[Sample]) -> OwnRun:
    """Run a layer, whose name is for messages, on every sample."""
    try:
        obstacles = engine.unsupported(weights.spec)
        if not obstacles:
            return OwnRun(ENGINE, [_on_engine(weights, sample) for sample in samples])
        instead = f"{name}: the engine does not run this layer yet ({'; '.join(obstacles)})"
    except NativeError as error:
        instead = f"the engine is not here ({str(error).splitlines()[0]})"
    outputs = [run_reference(weights.spec, weights.arrays, s.x, s.h0, s.c0, s.lengths) for s in samples]
    return OwnRun(REFERENCE, outputs, f"{instead}; the float64 reference ran instead")


def _on_engine(weights: RNNWeights, sample: Sample) -> Outputs:
    net = layers.layer(weights, batch_first=False)
    dtype = weights.dtype
    h0 = sample.h0.astype(dtype)
    state = h0 if sample.c0 is None else (h0, sample.c0.astype(dtype))
    y, state, _ = net.forward(sample.x.astype(dtype), state, lengths=sample.lengths)
    y = np.concatenate(y, axis=-1) if isinstance(y, tuple) else y
    return {"y": y, "h": state[0], "c": state[1]} if isinstance(state, tuple) else {"y": y, "h": state}
