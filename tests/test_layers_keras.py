"""Masks and `padding="repeat"` against Keras itself, whose rule it is."""

from __future__ import annotations

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.proof.tolerance import expectation, max_abs_error
from rnnbridge.weights import RNNWeights
from tests.samples import spec_of

keras = pytest.importorskip("keras", reason="keras is not installed, so it cannot judge masks")
N, T, I, H = 5, 11, 3, 7


@pytest.mark.parametrize("backwards", [False, True])
def test_a_mask_is_what_keras_makes_of_it(backwards: bool) -> None:
    theirs = keras.layers.SimpleRNN(
        H, return_sequences=True, return_state=True, go_backwards=backwards, bias_initializer="uniform"
    )
    theirs.build((N, T, I))
    order = {"direction": "reverse", "output_order": "processing"} if backwards else {}
    spec = spec_of("rnn_tanh", input_size=I, hidden_size=H, bias="single", **order)
    kernel, recurrent, bias = theirs.get_weights()
    weights = RNNWeights(spec, {"weight_ih_l0": kernel.T, "weight_hh_l0": recurrent.T, "bias_ih_l0": bias})
    generator = np.random.default_rng(3)
    x, mask = generator.standard_normal((N, T, I)).astype("f"), generator.random((N, T)) < 0.5
    mask[1], mask[2], mask[3] = False, True, np.arange(T) < 4

    y, h = rb.layer(weights, batch_first=True)(x, mask=mask, padding="repeat")
    wanted_y, wanted_h = (
        keras.ops.convert_to_numpy(part) for part in theirs(x, mask=keras.ops.convert_to_tensor(mask))
    )
    allowed = expectation(spec, weights.arrays, x.swapaxes(0, 1)).tolerance
    assert max_abs_error(y, wanted_y) <= allowed["y"]
    assert max_abs_error(h[0], wanted_h) <= allowed["h"]
    assert (y[1] == 0).all()
