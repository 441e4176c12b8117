"""torch.nn modules in memory: read, made and filled, judged by their own answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation, max_abs_error
from rnnbridge.reference import forward
from rnnbridge.weights import RNNWeights
from tests.modules import CELLS, MODULES, answer, cell_answer, module_of, same_bits, torch
from tests.samples import Inputs, inputs_of, spec_of, weights_of

LENGTHS = np.array([3, 7, 1])
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")


def assert_same_numbers(weights: RNNWeights, given: Inputs, theirs: dict[str, np.ndarray]) -> None:
    sample = (weights.spec, weights.arrays, given.x, given.h0, given.c0, given.lengths)
    ours, tolerance = forward(*sample)._asdict(), expectation(*sample).tolerance
    assert theirs.keys() == tolerance.keys()
    for name, array in theirs.items():
        assert max_abs_error(array, ours[name]) <= tolerance[name], name


@pytest.mark.parametrize(("kind", "arguments"), MODULES)
def test_a_module_is_read_as_it_runs(kind: str, arguments: dict[str, Any]) -> None:
    module = module_of(kind, arguments)
    weights = rb.from_framework(module)
    for batch, lengths in ((1, None), (3, None), (3, LENGTHS)):
        given = inputs_of(weights.spec, batch)
        given = Inputs(given.x, given.h0, given.c0, lengths)
        assert_same_numbers(weights, given, answer(module, given))


@pytest.mark.parametrize(("kind", "arguments"), CELLS)
def test_a_cell_is_read_as_it_runs(kind: str, arguments: dict[str, Any]) -> None:
    cell = module_of(kind, arguments)
    weights = rb.from_framework(cell)
    assert weights.origin.batch_first is None
    for batch in (1, 3):
        given = inputs_of(weights.spec, batch)
        assert_same_numbers(weights, given, cell_answer(cell, given))
    assert same_bits(rb.to_framework(weights, "pytorch").state_dict(), cell.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "arguments"), MODULES)
def test_a_module_is_made_again(kind: str, arguments: dict[str, Any], dtype: torch.dtype) -> None:
    module = module_of(kind, {**arguments, "batch_first": True}, dtype)
    again = rb.to_framework(rb.from_framework(module), "pytorch")
    assert type(again) is type(module)
    assert repr(again) == repr(module)
    assert same_bits(again.state_dict(), module.state_dict())
    assert again.training
    assert all(parameter.requires_grad for parameter in again.parameters())
    assert repr(rb.to_framework(rb.from_framework(module), "pytorch", batch_first=False)) != repr(module)


def test_making_a_module_leaves_torchs_generator_alone() -> None:
    weights = weights_of(spec_of("lstm"))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    rb.to_framework(weights, "pytorch")
    assert torch.equal(torch.rand(3), expected)


def test_a_class_derived_from_a_module_is_read_and_filled() -> None:
    class Encoder(torch.nn.GRU):
        def __init__(self) -> None:
            super().__init__(5, 3, num_layers=2)
            self.head = torch.nn.Linear(3, 2)

    encoder = Encoder()
    weights = weights_of(spec_of("gru_after", num_layers=2))
    head = encoder.head.weight.detach().clone()
    assert rb.to_framework(weights, "pytorch", into=encoder) is encoder
    assert rb.from_framework(encoder) == weights
    assert torch.equal(encoder.head.weight, head)


def test_a_filled_module_stays_what_it_was() -> None:
    module = module_of("LSTM", {"batch_first": True, "dropout": 0.5, "num_layers": 2}, torch.float64)
    module.weight_hh_l0.requires_grad_(False)
    places = {name: parameter.data_ptr() for name, parameter in module.named_parameters()}
    weights = weights_of(spec_of("lstm", num_layers=2))
    rb.to_framework(weights, "pytorch", into=module)
    assert places == {name: parameter.data_ptr() for name, parameter in module.named_parameters()}
    assert not module.training
    assert not module.weight_hh_l0.requires_grad
    assert module.batch_first
    assert rb.from_framework(module) == weights.astype("float64")


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_narrow_weights_are_widened_and_fit_again(narrow: torch.dtype) -> None:
    module = module_of("GRU", {}, narrow)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    weights = rb.from_framework(module)
    assert str(narrow) == f"torch.{weights.origin.storage_dtype}"
    assert weights.dtype == np.float32
    for parameter in module.parameters():
        parameter.data.zero_()
    rb.to_framework(weights, "pytorch", into=module)
    assert same_bits(module.state_dict(), before)


def test_a_weight_under_weight_norm_is_read_as_computed() -> None:
    module = torch.nn.utils.parametrizations.weight_norm(module_of("LSTM", {}), "weight_hh_l0")
    with torch.no_grad():
        module.parametrizations.weight_hh_l0.original0.mul_(2)
    weights = rb.from_framework(module)
    assert np.array_equal(weights.arrays["weight_hh_l0"], module.weight_hh_l0.detach().numpy())
    with pytest.raises(rb.Incompatible, match="weight_hh_l0 is no plain parameter"):
        rb.to_framework(weights, "pytorch", into=module)


def test_every_difference_of_a_module_is_named() -> None:
    module = torch.nn.LSTM(7, 2, num_layers=3, bias=False, bidirectional=True, batch_first=True)
    with pytest.raises(rb.Incompatible) as caught:
        rb.to_framework(weights_of(spec_of("lstm", proj_size=2)), "pytorch", into=module, batch_first=False)
    wanted = ("input_size", "hidden_size", "num_layers", "bias", "bidirectional", "batch_first", "proj_size")
    assert all(any(reason.startswith(f"{key} is ") for reason in caught.value.reasons) for key in wanted)
    assert len(caught.value.reasons) == len(wanted)


def test_a_module_that_would_round_the_weights_is_refused() -> None:
    weights = weights_of(spec_of("rnn_relu"), dtype="float64")
    with pytest.raises(rb.Incompatible, match="float32 there and float64 here"):
        rb.to_framework(weights, "pytorch", into=module_of("RNN", {"nonlinearity": "relu"}))


@pytest.mark.parametrize(
    ("cell", "changes", "reason"),
    [
        ("gru_before", {}, "applies the reset gate before"),
        ("lstm", {"direction": "reverse"}, "runs forward or bidirectional"),
        ("lstm", {"peephole": True}, "peepholes"),
        ("lstm", {"proj_size": 3}, "proj_size=3 and hidden_size=3"),
        ("rnn_tanh", {"activations": ("linear",)}, "cannot have the activation linear"),
        ("gru_after", {"direction": "bidirectional", "merge": "sum"}, "joins two directions by concat"),
    ],
)
def test_what_pytorch_cannot_hold_is_refused(cell: str, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(rb.Incompatible) as caught:
        rb.to_framework(weights_of(spec_of(cell, **changes)), "pytorch")
    assert any(reason in one for one in caught.value.reasons)


def test_other_modules_and_other_cells_are_refused() -> None:
    weights = weights_of(spec_of("lstm"))
    with pytest.raises(rb.ArgumentError, match="Linear"):
        rb.from_framework(torch.nn.Linear(5, 3))
    with pytest.raises(rb.Incompatible, match="Linear"):
        rb.to_framework(weights, "pytorch", into=torch.nn.Linear(5, 3))
    with pytest.raises(rb.Incompatible, match="has no LSTM"):
        rb.to_framework(weights, "pytorch", into=torch.nn.GRU(5, 3))


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_a_quantised_module_is_refused_by_name() -> None:
    quantised = pytest.importorskip("torch.ao.nn.quantized.dynamic", reason="this PyTorch has no quantised modules")
    with pytest.raises(rb.Incompatible, match=r"quantized\.dynamic.*LSTM"):
        rb.from_framework(quantised.LSTM(5, 3))
