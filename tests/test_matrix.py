"""One set of weights through every framework and back: Keras -> canonical -> PyTorch -> canonical -> ONNX -> Keras.

Every cell x layers x direction x bias form. The same bits return where nothing but (b, 0) and its removal is on the
way; what a framework cannot hold is refused with the reason; and the frameworks themselves give the oracle's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights
from tests import oracle
from tests.samples import CELLS, Inputs, all_specs, inputs_of, spec_of, weights_of

PROCESSING = [
    (f"{cell}-1-processing-{bias}", spec_of(cell, direction="reverse", output_order="processing", bias=bias))
    for cell in CELLS
    for bias in ("none", "single", "double")
]
SPECS = [*all_specs(), *PROCESSING]
every_spec = pytest.mark.parametrize("spec", [spec for _, spec in SPECS], ids=[name for name, _ in SPECS])


def through_file(weights: RNNWeights, path: Path, settings: dict[str, str] | None = None) -> RNNWeights:
    """Save, load, and join what the format holds as separate layers."""
    written = rb.save(weights, path)
    said = {key: value for layer in written.layers for key, value in layer.settings.items()}
    return rb.stack(list(rb.load(path, settings={**said, **(settings or {})}).layers.values()))


def refusals(spec: RNNSpec) -> dict[str, str]:
    """Framework -> a word of the reason, for those that cannot hold a layer like this."""
    refused = {}
    if spec.direction == "reverse":
        refused["pytorch"] = "runs forward or bidirectional"
        if spec.output_order == "input":
            refused["keras"] = "processing order"
    if spec.reset == "before":
        refused["pytorch"] = "applies the reset gate before"
    return refused


@every_spec
def test_weights_come_home(spec: RNNSpec, tmp_path: Path) -> None:
    refused = refusals(spec)
    given = weights_of(spec)
    targets = {"keras": "a.weights.h5", "pytorch": "b.pt", "onnx": "c.onnx"}
    for framework, reason in refused.items():
        with pytest.raises(rb.Incompatible) as caught:
            rb.save(given, tmp_path / targets[framework])
        assert any(reason in one for one in caught.value.reasons)
        assert not any(tmp_path.iterdir())
    if "keras" in refused:
        assert through_file(given, tmp_path / "c.onnx").arrays.keys() >= given.arrays.keys()
        return
    at_start = through_file(given, tmp_path / "start.h5")
    now = at_start
    for framework, name in targets.items():
        if framework not in refused:
            now = through_file(now, tmp_path / name)
    home = through_file(now, tmp_path / "end.h5")
    assert home == at_start
    assert (tmp_path / "start.h5").read_bytes() == (tmp_path / "end.h5").read_bytes()
    merged = spec.bias == "double" and spec.reset != "after"
    for name, array in at_start.arrays.items():
        if not (merged and name.startswith("bias")):
            assert np.array_equal(array, given.arrays.get(name, 0 * array))  # a new bias is zero


def run_engine(weights: RNNWeights, given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    state = (given.h0, given.c0) if weights.spec.has_cell_state else given.h0
    y, state, _ = rb.layer(weights).forward(given.x, state, lengths=given.lengths)
    return y, state[0] if weights.spec.has_cell_state else state


def run_pytorch(weights: RNNWeights, given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = rb.to_framework(weights, "pytorch", batch_first=False)
    h0 = torch.from_numpy(given.h0)
    with torch.inference_mode():
        y, state = module(torch.from_numpy(given.x), (h0, torch.from_numpy(given.c0)) if given.c0 is not None else h0)
    return y.numpy(), (state[0] if given.c0 is not None else state).numpy()


def run_onnxruntime(weights: RNNWeights, given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    model = rb.to_framework(weights, "onnx").SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feed = {"x": given.x, "initial_h": given.h0}
    if given.c0 is not None:
        feed["initial_c"] = given.c0
    y, h = session.run(["y", "h"], feed)
    return y, h


def run_keras(weights: RNNWeights, given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    pytest.importorskip("keras", reason="Keras is not installed")
    y, finals = given.x.transpose(1, 0, 2), []
    for index, single in enumerate(weights.split()):
        layer = rb.to_framework(single, "keras")
        first = index * single.spec.num_directions
        states = [
            state[first + direction]
            for direction in range(single.spec.num_directions)
            for state in (given.h0, given.c0)
            if state is not None
        ]
        wrapped = getattr(layer, "forward_layer", layer), getattr(layer, "backward_layer", layer)
        for one in (layer, *wrapped):
            one.return_sequences = one.return_state = True
        y, *after = (np.asarray(part) for part in layer(y, initial_state=states))
        finals += after[:: 2 if single.spec.has_cell_state else 1]
    return y.transpose(1, 0, 2), np.stack(finals)


RUNNERS: dict[str, Callable[[RNNWeights, Inputs], tuple[np.ndarray, np.ndarray]]] = {
    "engine": run_engine,
    "pytorch": run_pytorch,
    "onnx": run_onnxruntime,
    "keras": run_keras,
}


@every_spec
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("runner", RUNNERS)
def test_everybody_gives_the_oracles_numbers(spec: RNNSpec, batch: int, runner: str) -> None:
    weights, given = weights_of(spec), inputs_of(spec, batch)
    if runner in refusals(spec):
        with pytest.raises(rb.Incompatible, match=refusals(spec)[runner]):
            rb.to_framework(weights, runner)
        return
    y, h, _ = oracle.run(spec, weights.arrays, given.x, given.h0, given.c0)
    allowed = expectation(spec, weights.arrays, given.x, given.h0, given.c0).tolerance
    got_y, got_h = RUNNERS[runner](weights, given)
    assert np.abs(got_y - y).max() <= allowed["y"]
    assert np.abs(got_h - h).max() <= allowed["h"]
