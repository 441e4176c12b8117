"""Masks with holes, and what stands in y where no step is valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.running import T, equal, layer_of, parts, state_of, x_of
from tests.samples import CELLS, DIRECTIONS


def scattered(seed: int = 0) -> np.ndarray:
    """A mask with holes, one row of it empty and one full."""
    mask = np.random.default_rng(seed).random((T, 5)) < 0.5
    mask[:, 1], mask[:, 3] = False, True
    return mask


@pytest.mark.parametrize(
    "changes",
    [*({"direction": one} for one in DIRECTIONS), {"direction": "reverse", "output_order": "processing"}],
    ids=str,
)
@pytest.mark.parametrize("cell", CELLS)
def test_a_mask_runs_the_valid_steps_alone(cell: str, changes: dict[str, Any]) -> None:
    net, x, mask = layer_of(cell, **changes), x_of(5), scattered()
    state = state_of(net, 5)
    x[~mask] = np.nan
    y, final = net(x, state, mask=mask)
    natural = y[::-1] if net.spec.output_order == "processing" else y
    assert (natural[~mask] == 0).all()
    for n in np.flatnonzero(mask.any(axis=0)):
        mine = tuple(part[:, n] for part in parts(state))
        alone, ends = net(x[mask[:, n], n], mine if len(mine) == 2 else mine[0])
        assert equal(natural[mask[:, n], n], alone[::-1] if natural is not y else alone)
        assert equal(tuple(part[:, n] for part in parts(final)), ends)
    assert equal(tuple(part[:, 1] for part in parts(final)), tuple(part[:, 1] for part in parts(state)))


def test_a_mask_in_batch_first_order_and_of_one_sequence() -> None:
    one, other, mask = layer_of(), layer_of(batch_first=True), scattered()
    y, state = one(x_of(5), mask=mask)
    turned, same = other(x_of(5).swapaxes(0, 1), mask=mask.T)
    assert equal((turned.swapaxes(0, 1), *same), (y, *state))
    assert turned.flags.c_contiguous
    assert equal(one(x_of(5)[:, 0], mask=mask[:, 0])[0], y[:, 0])


def repeated(y: np.ndarray, mask: np.ndarray, backwards: bool) -> np.ndarray:
    """What Keras puts where no step is valid, one step at a time; y and the result in the order of the input."""
    result = np.zeros_like(y)
    for n in range(y.shape[1]):
        last = np.zeros_like(y[0, n])
        for t in reversed(range(T)) if backwards else range(T):
            last = y[t, n] if mask[t, n] else last
            result[t, n] = last
    return result


@pytest.mark.parametrize("order", ["input", "processing"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_padding_repeats_the_last_output(direction: str, order: str) -> None:
    if order == "processing" and direction == "forward":
        order = "input"
    nets = [layer_of("gru_after", first, direction=direction, output_order=order) for first in (False, True)]
    holes, lengths = scattered(), np.array([3, 0, T, 1, 5])
    for mask, given in ((holes, {"mask": holes}), (np.arange(T)[:, None] < lengths, {"lengths": lengths})):
        flip = slice(None, None, -1) if order == "processing" else slice(None)
        wanted = repeated(nets[0](x_of(5), **given)[0][flip], mask, direction == "reverse")[flip]
        assert equal(nets[0](x_of(5), padding="repeat", **given)[0], wanted)
        turned = {name: value.T if name == "mask" else value for name, value in given.items()}
        y = nets[1](x_of(5).swapaxes(0, 1), padding="repeat", **turned)[0]
        assert equal(y.swapaxes(0, 1), wanted)
    assert equal(nets[0](x_of(), padding="repeat")[0], nets[0](x_of())[0])
