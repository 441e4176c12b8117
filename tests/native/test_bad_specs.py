"""A plan that cannot be, asked for through C: an error in words, and no plan."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from rnnbridge._native import interface
from rnnbridge.errors import ArgumentError
from tests.native.c_calls import RECOMPUTE, TRAINING, Change, made, spec_struct, to
from tests.samples import spec_of


def activation(at: int, **fields: Any) -> Change:
    return lambda spec: to(**fields)(spec.activations[at])


def bad_specs() -> Iterator[tuple[str, Change, str]]:
    for field in ("cell", "reset", "dtype", "direction", "bias", "merge", "output_order"):
        for value in (0, -1, 9, 2**31 - 1):
            yield "lstm", to(**{field: value}), f"{field} is {value}; accepted are 1"
    for field, value in product(("num_layers", "input_size", "hidden_size"), (0, -1, -(2**31))):
        yield "lstm", to(**{field: value}), f"{field} is {value}; at least 1"
    for size in (0, 8, ctypes.sizeof(interface.Spec) - 1, 65537, 2**64 - 1):
        yield "lstm", to(struct_size=size), f"rnb_spec.struct_size is {size}"
    for code in (0, -1, 17):
        yield "lstm", activation(2, code=code), f"an activation's code is {code}; accepted are 1"
    for name, value in product(("alpha", "beta"), (float("nan"), float("inf"))):
        yield "gru_after", activation(1, **{name: value}), "must be finite"
    yield "gru_after", activation(2, code=1), r"activations\[2\].code is 1; this cell has 2"
    yield "rnn_tanh", activation(1, code=1), r"activations\[1\].code is 1; this cell has 1"
    yield "gru_after", to(reset=1), "a GRU needs reset"
    yield "lstm", to(reset=2), "reset must be none"
    yield "lstm", to(direction=1, merge=2), "nothing to merge"
    yield "lstm", to(num_layers=2, merge=5), "merge none"
    yield "lstm", to(num_layers=2, output_order=2), "output_order processing"


@pytest.mark.parametrize("flags", [0, TRAINING])
@pytest.mark.parametrize(("cell", "change", "said"), list(bad_specs()))
def test_a_bad_spec(cell: str, change: Change, said: str, flags: int) -> None:
    with pytest.raises(ArgumentError, match=said):
        made(spec_struct(spec_of(cell, direction="bidirectional"), change), flags=flags)


TOO_MUCH = "more memory than an address space has|each must be below|training accepts up to"


@pytest.mark.parametrize("flags", [0, TRAINING, TRAINING | RECOMPUTE])
@pytest.mark.parametrize("cell", ["lstm", "gru_before", "rnn_tanh"])
def test_sizes_whose_product_leaves_the_address_space(cell: str, flags: int) -> None:
    large = (2**31, 2**40, 2**48 - 1, 2**48, 2**62, 2**63 - 1)
    for one, other in product(large, large):
        for sizes in ({"hidden_size": one, "input_size": other}, {"hidden_size": one, "num_layers": 2**31 - 1}):
            with pytest.raises(ArgumentError, match=TOO_MUCH):
                made(spec_struct(spec_of(cell, direction="bidirectional"), to(**sizes)), other, one, flags)
        with pytest.raises(ArgumentError, match=TOO_MUCH):
            made(spec_struct(spec_of(cell, num_layers=3, direction="bidirectional")), one, other, flags)


@pytest.mark.parametrize("flags", [2, 4, 5, 7, 2**31, 2**32 - 1])
def test_unknown_flags(flags: int) -> None:
    with pytest.raises(ArgumentError, match=f"flags is {flags}; accepted are 0, 1"):
        made(spec_struct(spec_of("lstm")), flags=flags)


@pytest.mark.parametrize("flags", [0, TRAINING])
def test_no_steps_and_fewer_than_no_sequences(flags: int) -> None:
    for steps in (0, -1, -(2**63)):
        with pytest.raises(ArgumentError, match=f"T is {steps}; a sequence has at least 1"):
            made(spec_struct(spec_of("lstm")), steps, flags=flags)
    for batch in (-1, -(2**63)):
        with pytest.raises(ArgumentError, match=f"N is {batch}; a batch has 0 or more"):
            made(spec_struct(spec_of("lstm")), N=batch, flags=flags)
