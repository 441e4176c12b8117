"""What Keras 3 takes for each class of layer: its keywords, its arrays, what it calls what older versions had.

A table of facts about `keras.layers` of Keras 3.15.1, read off its constructors and `save_own_variables`;
tests/test_keras_classes.py compares it with the Keras that is installed. Knows no file and no config.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_SOURCE = "inspect.signature of every class in keras.layers 3.15.1; Layer.__init__ in keras/src/layers/layer.py"
COMMON = frozenset(("name", "trainable", "dtype", "activity_regularizer", "autocast"))
_INIT, _REG, _CON = "{0}_initializer", "{0}_regularizer", "{0}_constraint"


def _kernel(*arrays: str) -> str:
    return " ".join(form.format(name) for name in arrays for form in (_INIT, _REG, _CON))


_WEIGHTS = f"use_bias activation {_kernel('kernel', 'bias')}"
_CONV = f"filters kernel_size strides padding data_format dilation_rate {_WEIGHTS}"
_SEPARABLE = (
    "filters kernel_size strides padding data_format dilation_rate depth_multiplier activation use_bias "
    f"{_kernel('depthwise', 'pointwise', 'bias')}"
)
_DEPTHWISE = (
    "kernel_size strides padding depth_multiplier data_format dilation_rate activation use_bias "
    f"{_kernel('depthwise', 'bias')}"
)
_CELL = f"units {_WEIGHTS} {_kernel('recurrent')} dropout recurrent_dropout seed"
_RNN = "return_sequences return_state go_backwards stateful unroll zero_output_for_mask"
_POOL, _GLOBAL = "pool_size strides padding data_format", "data_format keepdims"
_NORM = f"axis epsilon center scale {_kernel('beta', 'gamma')}"
_BATCH_NORM = (
    f"{_NORM} momentum moving_mean_initializer moving_variance_initializer "
    "renorm renorm_clipping renorm_momentum synchronized"
)
_TABLE: dict[str, str] = {
    "Activation": "activation",
    "ActivityRegularization": "l1 l2",
    **dict.fromkeys(("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract", "Identity"), ""),
    "AdditiveAttention": "use_scale dropout",
    "AlphaDropout": "rate noise_shape seed",
    "Attention": "use_scale score_mode dropout seed",
    **{f"{kind}Pooling{n}D": _POOL for kind in ("Average", "Max") for n in (1, 2, 3)},
    "BatchNormalization": _BATCH_NORM,
    "Bidirectional": "layer merge_mode weights backward_layer",
    "Concatenate": "axis",
    **{f"Conv{n}D": f"{_CONV} groups" for n in (1, 2, 3)},
    **{f"Conv{n}DTranspose": f"{_CONV} output_padding" for n in (1, 2, 3)},
    "Cropping1D": "cropping",
    **{f"Cropping{n}D": "cropping data_format" for n in (2, 3)},
    "Dense": f"units {_WEIGHTS} lora_rank lora_alpha quantization_config",
    **{f"DepthwiseConv{n}D": _DEPTHWISE for n in (1, 2)},
    "Dot": "axes normalize",
    "Dropout": "rate noise_shape seed",
    "ELU": "alpha",
    "Embedding": f"input_dim output_dim {_kernel('embeddings')} mask_zero weights lora_rank lora_alpha "
    "quantization_config",
    "Flatten": "data_format",
    **{f"Global{kind}Pooling{n}D": _GLOBAL for kind in ("Average", "Max") for n in (1, 2, 3)},
    "GRU": f"{_CELL} {_RNN} recurrent_activation reset_after use_cudnn",
    "GRUCell": f"{_CELL} recurrent_activation reset_after",
    "GaussianDropout": "rate seed",
    "GaussianNoise": "stddev seed",
    "InputLayer": "shape batch_size sparse ragged batch_shape input_tensor optional",
    "LSTM": f"{_CELL} {_RNN} recurrent_activation unit_forget_bias use_cudnn",
    "LSTMCell": f"{_CELL} recurrent_activation unit_forget_bias",
    "LayerNormalization": _NORM,
    "LeakyReLU": "negative_slope",
    "Masking": "mask_value",
    "PReLU": f"{_kernel('alpha')} shared_axes",
    "Permute": "dims",
    "RNN": f"cell {_RNN}",
    "ReLU": "max_value negative_slope threshold",
    "RepeatVector": "n",
    "Rescaling": "scale offset",
    "Reshape": "target_shape",
    **{f"SeparableConv{n}D": _SEPARABLE for n in (1, 2)},
    "SimpleRNN": f"{_CELL} {_RNN}",
    "SimpleRNNCell": _CELL,
    "Softmax": "axis",
    "SpatialDropout1D": "rate seed",
    **{f"SpatialDropout{n}D": "rate data_format seed" for n in (2, 3)},
    "StackedRNNCells": "cells",
    "TimeDistributed": "layer",
    "UnitNormalization": "axis",
    "UpSampling1D": "size",
    "UpSampling2D": "size data_format interpolation",
    "UpSampling3D": "size data_format",
    "ZeroPadding1D": "padding data_format",
    **{f"ZeroPadding{n}D": "padding data_format" for n in (2, 3)},
}
_NAMED_ALONE = ("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")  # they hand no keywords on to Layer
KEYWORDS: dict[str, frozenset[str]] = {
    name: (frozenset(("name", "dtype")) if name in _NAMED_ALONE else COMMON).union(words.split())
    for name, words in _TABLE.items()
}
"""The keywords that each class takes. A class that is not here is carried as it is, and needs Keras for an archive."""
CONTAINERS = ("Sequential", "Functional", "Model")

# The layers whose arrays are all their own, in the order in which both containers have them, and what Keras calls them.
OWN_ARRAYS: dict[str, tuple[str, ...]] = {
    "BatchNormalization": ("gamma", "beta", "moving_mean", "moving_variance"),
    **{f"Conv{n}D{kind}": ("kernel", "bias") for n in (1, 2, 3) for kind in ("", "Transpose")},
    "Dense": ("kernel", "bias"),
    **{f"DepthwiseConv{n}D": ("depthwise_kernel", "bias") for n in (1, 2)},
    "Embedding": ("embeddings",),
    "LayerNormalization": ("gamma", "beta"),
    "PReLU": ("alpha",),
    **{f"SeparableConv{n}D": ("depthwise_kernel", "pointwise_kernel", "bias") for n in (1, 2)},
}


class Dead(NamedTuple):
    """A keyword that Keras 3 does not take, and why dropping it changes no number.

    Args:
        values: those that may be dropped; None is any.
    """

    values: tuple[Any, ...] | None
    because: str


_HOW = "it says how to compute, not what"
_SHAPE = "the shape is in the model's input"
DEAD: dict[str, Dead] = {
    "time_major": Dead((False, None), "Keras 3 has batch-first layers alone, and this is one"),
    "implementation": Dead(None, _HOW),
    "consume_less": Dead(None, _HOW),
    "fused": Dead(None, _HOW),
    **dict.fromkeys(("input_length", "input_shape", "input_dim", "input_dtype"), Dead(None, _SHAPE)),
    "batch_input_shape": Dead(None, _SHAPE),
    "groups": Dead((1, None), "one group is no groups"),
    "virtual_batch_size": Dead((None,), "it was not used"),
    "adjustment": Dead((None,), "it was not used"),
    "weights": Dead((None,), "it was not used"),
    "autocast": Dead((True, None), "it is the default"),
    "causal": Dead((False, None), "Keras 3 asks for it at the call"),
    "sparse": Dead((False, None), "it was not used"),
    "keepdims": Dead((False, None), "it is the default"),
    "data_format": Dead(("channels_last", None), "it is the default"),
    **{form.format("kernel"): Dead(None, "the layer has no such array") for form in (_INIT, _REG, _CON)},
    "filters": Dead(None, "the layer has as many as its input and depth_multiplier say"),
    "noise_shape": Dead((None,), "it was not used"),
    "trainable": Dead(None, "the layer has nothing to train"),
    "activity_regularizer": Dead((None,), "it was not used"),
    "dilation_rate": Dead((1, [1], [1, 1], [1, 1, 1]), "a rate of 1 is none"),
}
"""Keywords by name. What is neither here nor taken by the class is refused: its meaning would be lost in silence."""

# What a layer adds up before its activation, so that scaling these scales what the activation gets.
LINEAR: dict[str, tuple[str, ...]] = {
    kind: tuple(name for name in names if not (kind.startswith("Separable") and name == "depthwise_kernel"))
    for kind, names in OWN_ARRAYS.items()
    if "bias" in names
}
LAMBDA_LEFT = ("function_type", "module", "output_shape_type", "output_shape_module")
"""What Keras 2 wrote of a Lambda beside its function, which Keras 3 drops itself from some files alone."""

# Classes of Keras 2 that Keras 3 left out.
REMOVED_CLASSES = ("LocallyConnected1D", "LocallyConnected2D", "ThresholdedReLU")
RENAMED_CLASSES = {
    "CuDNNLSTM": "LSTM",
    "CuDNNGRU": "GRU",
    "Model": "Functional",
    **{f"Convolution{n}D": f"Conv{n}D" for n in (1, 2, 3)},
    **{f"GlobalAvgPool{n}D": f"GlobalAveragePooling{n}D" for n in (1, 2, 3)},
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
}
"""Classes that Keras 3 has under another name."""
RENAMED: dict[str, dict[str, str]] = {
    "InputLayer": {"batch_input_shape": "batch_shape", "input_dtype": "dtype"},
    "LeakyReLU": {"alpha": "negative_slope"},
}
"""Keywords that Keras 3 calls something else, by class."""
