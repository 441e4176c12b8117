"""A spec says everything that changes the numbers, and refuses what contradicts itself."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from rnnbridge.activation import CONSTANTS, Activation
from rnnbridge.errors import ArgumentError, Incompatible, LayoutError, SpecError
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import RNNWeights, stack
from tests.samples import all_specs, spec_of, weights_of


@pytest.mark.parametrize(("name", "spec"), all_specs(), ids=[name for name, _ in all_specs()])
def test_a_spec_survives_json(name: str, spec: RNNSpec) -> None:
    assert RNNSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "gru"}, "needs reset="),
        ({"cell": "lstm", "reset": "after"}, "reset belongs to a GRU"),
        ({"cell": "rnn"}, r"takes 1 activation\(s\), not 0"),
        ({"cell": "gru", "reset": "after", "proj_size": 2}, "proj_size belongs to an LSTM"),
        ({"cell": "ltsm"}, "cell is 'ltsm'; it is one of 'lstm', 'gru', 'rnn'"),
        ({"cell": "lstm", "hidden_size": 0}, "hidden_size is 0"),
        ({"cell": "lstm", "merge": "sum"}, "needs direction='bidirectional'"),
        ({"cell": "lstm", "direction": "bidirectional", "merge": "none", "num_layers": 2}, "cannot be stacked"),
        ({"cell": "lstm", "output_order": "processing"}, "belongs to direction='reverse'"),
        ({"cell": "lstm", "proj_clip": 1.0}, "needs proj_size"),
        ({"cell": "lstm", "clip": -1.0}, "clip is -1.0"),
        ({"cell": "lstm", "clip": "1"}, "clip is '1'"),
        ({"cell": "lstm", "peephole": "no"}, "peephole is 'no'; it is True or False"),
        ({"cell": "lstm", "hidden_size": 3.0}, "hidden_size is 3.0; it is a whole number"),
        ({"cell": "lstm", "hidden_size": True}, "hidden_size is True"),
        ({"cell": "rnn", "activations": (1,)}, "an activation is 1"),
        ({"cell": "lstm", "activations": ("hard_sigmoid", "tanh", "tanh")}, "takes alpha and beta"),
    ],
)
def test_a_contradiction_is_refused_by_name(changes: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RNNSpec(**{"input_size": 5, "hidden_size": 3, "bias": "double", **changes})


def test_numbers_and_names_are_taken_as_numpy_and_people_write_them() -> None:
    spec = RNNSpec(cell="rnn", input_size=np.int64(5), hidden_size=np.int32(3), bias="none", activations="tanh")  # type: ignore[arg-type]
    assert spec == spec_of("rnn_tanh", bias="none")
    assert type(spec.hidden_size) is int
    assert weights_of(spec).astype(np.float64).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", None, "flaot32", ">f4", int])
def test_another_dtype_is_refused(dtype: object) -> None:
    with pytest.raises(ArgumentError, match="it is 'float32' or 'float64'"):
        weights_of(spec_of("lstm")).astype(dtype)  # type: ignore[arg-type]


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(SpecError, match=r"direction is 'back'.*input_size is -1"):
        RNNSpec(cell="lstm", input_size=-1, hidden_size=3, bias="double", direction="back")  # type: ignore[arg-type]


def test_a_spec_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        spec_of("lstm").hidden_size = 4  # type: ignore[misc]


@pytest.mark.parametrize("name", CONSTANTS)
def test_an_activation_survives_its_spelling(name: str) -> None:
    one = Activation(name, *(1 / 6, 0.5)[: len(CONSTANTS[name])])
    assert Activation.parse(str(one)) == one


def test_weights_name_every_array_that_does_not_fit() -> None:
    spec = spec_of("lstm")
    arrays = dict(weights_of(spec).arrays)
    del arrays["bias_hh_l0"]
    arrays["weight_ih_l0"] = arrays["weight_ih_l0"].T
    arrays["extra"] = np.zeros(3, np.float32)
    with pytest.raises(LayoutError, match=r"bias_hh_l0 \[12\] is missing.*extra is not.*weight_ih_l0 is \[5, 12\]"):
        RNNWeights(spec, arrays)
    with pytest.raises(LayoutError, match="int64"):
        RNNWeights(spec, {name: array.astype(np.int64) for name, array in weights_of(spec).arrays.items()})


def test_narrow_numbers_are_widened_and_remembered() -> None:
    spec = spec_of("gru_after")
    halves = {name: array.astype(np.float16) for name, array in weights_of(spec).arrays.items()}
    weights = RNNWeights(spec, halves)
    assert weights.dtype == np.float32
    assert weights.origin.storage_dtype == "float16"
    assert all((weights.arrays[name].astype(np.float16) == halves[name]).all() for name in halves)


def test_views_nan_and_fortran_order_are_taken_as_they_are() -> None:
    spec = spec_of("lstm")
    arrays = dict(weights_of(spec).arrays)
    wide = np.full((12, 10), np.nan, np.float32)
    wide[:, ::2] = arrays["weight_ih_l0"]
    arrays |= {"weight_ih_l0": wide[:, ::2], "weight_hh_l0": np.asfortranarray(arrays["weight_hh_l0"])}
    arrays["bias_ih_l0"] = np.full(12, np.nan, np.float32)
    weights = RNNWeights(spec, arrays)
    assert weights == RNNWeights(spec, {name: np.ascontiguousarray(array) for name, array in arrays.items()})
    assert all(array.flags.c_contiguous for array in weights.arrays.values())


def test_weights_can_be_pickled_and_copied() -> None:
    weights = weights_of(spec_of("gru_before")).with_origin(name="rnn", batch_first=True)
    for copy in (pickle.loads(pickle.dumps(weights)), deepcopy(weights)):
        assert copy == weights
        assert copy.origin == weights.origin


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_split_undoes_stack(direction: str) -> None:
    whole = weights_of(spec_of("lstm", num_layers=3, direction=direction))
    layers = whole.split()
    assert [one.spec.input_size for one in layers] == [5, *[3 * whole.spec.num_directions] * 2]
    assert stack(layers) == whole
    assert stack([stack(layers[:2]), layers[2]]) == whole


@pytest.mark.parametrize("what", [[], [1], "w", 3])
def test_only_layers_are_stacked(what: object) -> None:
    with pytest.raises(ArgumentError, match="a list of one or more RNNWeights"):
        stack(what)  # type: ignore[arg-type]


def test_stacking_names_every_obstacle() -> None:
    lower = weights_of(spec_of("gru_after"))
    upper = weights_of(spec_of("gru_before", input_size=11, bias="none"))
    with pytest.raises(Incompatible) as caught:
        stack([lower, upper])
    assert len(caught.value.reasons) == 3  # bias, reset, features
