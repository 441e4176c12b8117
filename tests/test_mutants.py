"""Rows are right, and no row could be wrong unseen: every row is judged by its framework, and so is every mutant of it.

A mutant has two letters exchanged: two gates, two axes of one array, or two gates of one array's own order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import catalogue
from rnnbridge.convention import Convention
from rnnbridge.proof.tolerance import expectation
from rnnbridge.reference import forward
from rnnbridge.spec import RNNSpec
from tests.samples import inputs_of, spec_of

ROWS = catalogue().rows
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Witness:
    """Arrays in the framework's own layout, an input, and what the framework itself answered."""

    spec: RNNSpec
    arrays: Arrays
    x: np.ndarray
    h0: np.ndarray
    c0: np.ndarray | None
    y: np.ndarray


def agrees(row: Convention, seen: Witness) -> bool:
    """Whether a row reads the framework's arrays so that the framework's own numbers come out, and writes them back."""
    try:
        canonical = row.read(seen.arrays, seen.spec)
        back = row.write(canonical, seen.spec)
    except rb.LayoutError:
        return False
    given = (seen.spec, canonical, seen.x, seen.h0, seen.c0)
    same = all(np.array_equal(back[name], array) for name, array in seen.arrays.items())
    return same and bool(np.abs(forward(*given).y - seen.y).max() <= expectation(*given).tolerance["y"])


def exchanged(text: str) -> Iterator[str]:
    """Every text with two different letters of the alphabet in it exchanged."""
    for first, second in combinations(sorted({letter for letter in text if letter.isalpha()}), 2):
        yield text.translate(str.maketrans(first + second, second + first))


def mutants(row: Convention) -> Iterator[tuple[str, Callable[[], Convention]]]:
    """(what was exchanged, how to make the mutant) for a row's gates and for every slot's axes and own gates."""
    for gates in exchanged(row.gates):
        yield f"gates {gates}", lambda gates=gates: replace(row, gates=gates)
    for index, slot in enumerate(row.slots):
        left, as_, block = slot.axes.partition(" as ")
        axes = [text + as_ + block for text in exchanged(left)] + [left + as_ + text for text in exchanged(block)]
        by_gates = [replace(slot, gates=one) for one in exchanged(slot.gates)]
        for mutant in [replace(slot, axes=one) for one in axes] + by_gates:
            slots = (*row.slots[:index], mutant, *row.slots[index + 1 :])
            yield f"{slot.name}: {mutant.axes} {mutant.gates}", lambda slots=slots: replace(row, slots=slots)


def slot_swaps(row: Convention) -> Iterator[tuple[str, Callable[[], Convention]]]:
    """Two one-gate arrays of the same tensor with their gates exchanged, as Keras 1 could be misread."""
    for (i, first), (j, second) in combinations(enumerate(row.slots), 2):
        if first.holds == second.holds and first.gates != second.gates:
            slots = list(row.slots)
            slots[i], slots[j] = replace(first, gates=second.gates), replace(second, gates=first.gates)
            yield f"{first.name} <-> {second.name}", lambda slots=tuple(slots): replace(row, slots=slots)


@pytest.fixture(scope="module")
def witnesses() -> dict[str, Witness]:
    return {}


def witness_of(name: str, kept: dict[str, Witness]) -> Witness:
    if name not in kept:
        kept[name] = MAKERS[ROWS[name].framework](ROWS[name])
    return kept[name]


@pytest.mark.parametrize("name", ROWS)
def test_a_row_gives_its_frameworks_numbers(name: str, witnesses: dict[str, Witness]) -> None:
    assert agrees(ROWS[name], witness_of(name, witnesses))


@pytest.mark.parametrize("name", ROWS)
def test_no_mutant_of_a_row_gives_them(name: str, witnesses: dict[str, Witness]) -> None:
    seen = witness_of(name, witnesses)
    tried = 0
    for what, make in [*mutants(ROWS[name]), *slot_swaps(ROWS[name])]:
        try:
            mutant = make()
        except rb.LayoutError:
            continue  # a row that does not construct is seen at once
        tried += 1
        assert not agrees(mutant, seen), f"{name} with {what} passes unseen"
    assert tried >= 2


def random_arrays(row: Convention, spec: RNNSpec) -> Arrays:
    """Random numbers in the shapes that the row gives a layer."""
    rng = np.random.default_rng(len(row.name))
    empty = row.write({name: np.zeros(shape, np.float32) for name, shape in spec.weight_shapes().items()}, spec)
    return {name: rng.uniform(-1, 1, array.shape).astype(np.float32) for name, array in empty.items()}


def spec_for(row: Convention, **changes: Any) -> RNNSpec:
    reset = {"reset": row.reset[0]} if row.reset else {}
    base = {"lstm": "lstm", "gru": "gru_after", "rnn": "rnn_tanh"}[row.cell]
    return spec_of(base, bias=row.bias_forms[-1], **{**reset, **changes})


def pytorch_witness(row: Convention) -> Witness:
    """The arrays are loaded as the module's state_dict; the module runs."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its rows go unjudged")
    cell = row.layer.endswith("Cell")
    both = {} if cell else {"direction": "bidirectional", "num_layers": 2}
    spec = spec_for(row, **both, **({"proj_size": 2} if row.layer == "LSTM" else {}))
    arrays, given = random_arrays(row, spec), inputs_of(spec, 3)
    extra = {"proj_size": 2} if spec.proj_size else {}
    warnings.filterwarnings("ignore", "LSTM with projections")  # torch says that it takes its slower path
    module = getattr(torch.nn, row.layer)(5, 3, **({} if cell else {"num_layers": 2, "bidirectional": True}), **extra)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    h0, c0 = torch.from_numpy(given.h0), None if given.c0 is None else torch.from_numpy(given.c0)
    with torch.no_grad():
        if not cell:
            y = module(torch.from_numpy(given.x), h0 if c0 is None else (h0, c0))[0].numpy()
            return Witness(spec, arrays, given.x, given.h0, given.c0, y)
        state, steps = h0[0] if c0 is None else (h0[0], c0[0]), []
        for x in torch.from_numpy(given.x):
            state = module(x, state)
            steps.append(state if c0 is None else state[0])
    return Witness(spec, arrays, given.x, given.h0, given.c0, torch.stack(steps).numpy())


def onnx_witness(row: Convention) -> Witness:
    """One node around the arrays, run by ONNX Runtime."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: its rows go unjudged")
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: ONNX's rows go unjudged")
    spec = spec_for(row, direction="bidirectional", **({"peephole": True} if row.cell == "lstm" else {}))
    arrays, given = random_arrays(row, spec), inputs_of(spec, 3)
    inputs = ["X", "W", "R", "B", "", "h0", *(["c0", "P"] if row.cell == "lstm" else [])]
    attributes = {"linear_before_reset": 1} if row.cell == "gru" else {}
    node = onnx.helper.make_node(row.layer, inputs, ["Y"], direction="bidirectional", hidden_size=3, **attributes)
    held = {**arrays, "h0": given.h0} | ({"c0": given.c0} if given.c0 is not None else {})
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "witness", [value("X", 1, ["T", "N", 5])], [value("Y", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in held.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y = session.run(None, {"X": given.x})[0]  # [T, D, N, H]
    return Witness(spec, arrays, given.x, given.h0, given.c0, np.concatenate([y[:, 0], y[:, 1]], axis=-1))


def keras_witness(row: Convention) -> Witness:
    """tf_keras takes the arrays as a file would hold them, converts those of another layer, and runs."""
    keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed: Keras's rows go unjudged")
    import tensorflow as tf
    from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

    spec = spec_for(row, direction="bidirectional")
    arrays, given = random_arrays(row, spec), inputs_of(spec, 3)
    kind = {"lstm": "LSTM", "gru": "GRU", "rnn": "SimpleRNN"}[row.cell]
    form = {"reset_after": row.reset[0] == "after"} if row.reset else {}
    x, outputs = tf.constant(given.x.transpose(1, 0, 2)), []
    for direction in range(2):
        layer = getattr(keras.layers, kind)(3, return_sequences=True, go_backwards=direction == 1, **form)
        layer.build((3, None, 5))
        own = [row.array_name(slot, 0, direction) for slot in row.slots]
        version = "1" if row.name.endswith("@1") else "2.3.1"
        loaded = preprocess_weights_for_loading(layer, [arrays[name] for name in own], version, "tensorflow")
        layer.set_weights(loaded)
        states = [tf.constant(state[direction]) for state in (given.h0, given.c0) if state is not None]
        outputs.append(layer(x, initial_state=states).numpy().transpose(1, 0, 2))
    y = np.concatenate([outputs[0], outputs[1][::-1]], axis=-1)
    return Witness(spec, arrays, given.x, given.h0, given.c0, y)


def npz_witness(row: Convention) -> Witness:
    """Our own format is the canonical form itself, so the arrays are canonical ones and the reference runs them."""
    lstm = {"proj_size": 2, "peephole": True} if row.cell == "lstm" else {}
    spec = spec_for(row, direction="bidirectional", num_layers=2, **lstm)
    arrays, given = random_arrays(row, spec), inputs_of(spec, 3)
    y = forward(spec, arrays, given.x, given.h0, given.c0).y
    return Witness(spec, arrays, given.x, given.h0, given.c0, y)


MAKERS: dict[str, Callable[[Convention], Witness]] = {
    "pytorch": pytorch_witness,
    "onnx": onnx_witness,
    "keras": keras_witness,
    "npz": npz_witness,
}


def test_every_framework_has_a_judge_here() -> None:
    assert {row.framework for row in ROWS.values()} <= MAKERS.keys()
