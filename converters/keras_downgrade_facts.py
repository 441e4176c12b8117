"""What Keras 2.3.1 and tf_keras lack of Keras 3: classes, keywords, what they call things. Knows no file and no config.

Read off `inspect.signature` of every class in `keras.layers` of 2.3.1 and of 3.15.1, and off the initializers and
regularizers of both.
"""

from __future__ import annotations

from typing import Any

from rnnbridge.converters.keras_classes import Dead

TF_KERAS_ALONE = frozenset(
    "AdditiveAttention Attention Conv1DTranspose DepthwiseConv1D LayerNormalization Rescaling UnitNormalization".split()
)
"""Classes that tf_keras has and Keras 2.3.1 has not."""
NOT_THERE = frozenset(("Identity",))
"""Classes that neither has."""

_DEFAULT = "it is the default"
LACKING: dict[str, Dead] = {
    "zero_output_for_mask": Dead((False, None), _DEFAULT),  # True stays: Keras 2.3.1 opens no file that says so
    "use_cudnn": Dead(None, "it says how to compute, not what"),
    "seed": Dead(None, "it is for training"),
    "autocast": Dead((True, None), _DEFAULT),
    "lora_rank": Dead((None,), "it was not used"),
    "lora_alpha": Dead((None,), "it was not used"),
    "quantization_config": Dead((None,), "it was not used"),
    "synchronized": Dead((False, None), "it was not used"),
    "renorm": Dead((False, None), "it was not used"),
    "renorm_clipping": Dead((None,), "it was not used"),
    "renorm_momentum": Dead(None, "it was not used"),
    "groups": Dead((1, None), "one group is no groups"),
    "rms_scaling": Dead((False, None), "it was not used"),
    "keepdims": Dead((False, None), _DEFAULT),
    "optional": Dead((False, None), _DEFAULT),
    "ragged": Dead((False, None), _DEFAULT),
    "time_major": Dead((False, None), _DEFAULT),
}
"""Keywords that Keras 2.3.1 does not take, and what they may be where they are dropped."""
HAS_SEED = ("Dropout", "AlphaDropout")
RENAMED: dict[str, dict[str, str]] = {
    "InputLayer": {"batch_shape": "batch_input_shape"},
    "LeakyReLU": {"negative_slope": "alpha"},
}
"""Keywords that Keras 2 calls something else, by class."""

ACTIVATIONS = frozenset("elu exponential linear relu selu sigmoid softmax softplus softsign tanh".split())
"""Names that mean the same in all three; hard_sigmoid does not."""
TF_KERAS_ACTIVATIONS = frozenset("gelu mish silu swish".split())

ONE_FLOAT = ("float32", None)
"""What Keras 2.3.1 computes in. It has one type for all layers, and no policies."""
NO_CUDNN = frozenset(
    "activation recurrent_activation use_bias dropout recurrent_dropout unroll reset_after implementation".split()
)
"""Keywords that the cuDNN layers do not take: they are sigmoid, tanh, biased and reset after."""


def _scaling(scale: float, mode: str, distribution: str) -> dict[str, Any]:
    return {"scale": scale, "mode": mode, "distribution": distribution}


INITIALIZERS: dict[str, dict[str, Any]] = {
    "GlorotUniform": _scaling(1.0, "fan_avg", "uniform"),
    "GlorotNormal": _scaling(1.0, "fan_avg", "normal"),
    "HeUniform": _scaling(2.0, "fan_in", "uniform"),
    "HeNormal": _scaling(2.0, "fan_in", "normal"),
    "LecunUniform": _scaling(1.0, "fan_in", "uniform"),
    "LecunNormal": _scaling(1.0, "fan_in", "normal"),
}
"""What Keras 2.3.1 has as a VarianceScaling of these settings."""
TF_KERAS_OBJECTS = ("OrthogonalRegularizer",)
"""What a keyword may hold and only tf_keras has."""
REGULARIZERS = {"L1": {"l1": 0.01, "l2": 0.0}, "L2": {"l1": 0.0, "l2": 0.01}}
"""What Keras 2.3.1 has as a L1L2, with the defaults of Keras 3."""
