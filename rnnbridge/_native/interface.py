"""rnnbridge.h in ctypes: its structs and ONE table of its functions. Knows nothing of NumPy.

What is mirrored here (struct sizes, status codes, ABI version) is compared with the library when it is loaded. Every
other code is read from the library by name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from enum import IntEnum, IntFlag
from typing import Any

from rnnbridge.errors import ArgumentError, NativeError

ABI_VERSION = 1
ALIGNMENT = 64


class Status(IntEnum):
    """rnb_status."""

    OK = 0
    INVALID_ARGUMENT = 1
    UNSUPPORTED = 2
    ISA_UNAVAILABLE = 3
    OUT_OF_MEMORY = 4
    INTERNAL_ERROR = 5
    BAD_ENVIRONMENT = 6


class PlanFlag(IntFlag):
    """rnb_plan_flag."""

    TRAINING = 1
    RECOMPUTE = 2


class Accumulate(IntFlag):
    """rnb_accumulate."""

    WEIGHTS = 1
    INPUTS = 2


class Sized(ctypes.Structure):
    """A struct whose first field is its own size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Activation(ctypes.Structure):
    """rnb_activation."""

    _fields_ = (("code", c_int32), ("alpha", c_double), ("beta", c_double))


class Spec(Sized):
    """rnb_spec."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("cell", c_int32),
        ("reset", c_int32),
        ("dtype", c_int32),
        ("direction", c_int32),
        ("bias", c_int32),
        ("merge", c_int32),
        ("output_order", c_int32),
        ("num_layers", c_int32),
        ("input_size", c_int64),
        ("hidden_size", c_int64),
        ("activations", Activation * 3),
    )


class Sizes(Sized):
    """rnb_sizes, in bytes."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("packed_nbytes", c_size_t),
        ("workspace_nbytes", c_size_t),
        ("tape_nbytes", c_size_t),
    )


class Weights(Sized):
    """rnb_weights."""

    _fields_ = (("struct_size", c_size_t), ("arrays", POINTER(c_void_p)), ("count", c_size_t))


class ForwardArgs(Sized):
    """rnb_forward_args; strides count elements."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("packed", c_void_p),
        ("workspace", c_void_p),
        ("x", c_void_p),
        ("x_stride_t", c_int64),
        ("x_stride_n", c_int64),
        ("y", c_void_p),
        ("y_stride_t", c_int64),
        ("y_stride_n", c_int64),
        ("lengths", c_void_p),
        ("lengths_itemsize", c_int32),
        ("num_threads", c_int32),
        ("h0", c_void_p),
        ("c0", c_void_p),
        ("hn", c_void_p),
        ("cn", c_void_p),
        ("tape", c_void_p),
        ("weights_generation", c_uint64),
        ("dropout", c_double),
        ("dropout_seed", c_uint64),
        ("dropout_offset", c_uint32),
        ("dropout_sample_offset", c_uint32),
    )


class BackwardArgs(Sized):
    """rnb_backward_args; strides count elements."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("packed", c_void_p),
        ("workspace", c_void_p),
        ("tape", c_void_p),
        ("weights_generation", c_uint64),
        ("x", c_void_p),
        ("x_stride_t", c_int64),
        ("x_stride_n", c_int64),
        ("y", c_void_p),
        ("y_stride_t", c_int64),
        ("y_stride_n", c_int64),
        ("h0", c_void_p),
        ("c0", c_void_p),
        ("dy", c_void_p),
        ("dy_stride_t", c_int64),
        ("dy_stride_n", c_int64),
        ("dhn", c_void_p),
        ("dcn", c_void_p),
        ("dx", c_void_p),
        ("dx_stride_t", c_int64),
        ("dx_stride_n", c_int64),
        ("dh0", c_void_p),
        ("dc0", c_void_p),
        ("dweights", POINTER(c_void_p)),
        ("dweights_count", c_size_t),
        ("accumulate", c_uint32),
        ("num_threads", c_int32),
    )


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "rnb_activation": Activation,
    "rnb_spec": Spec,
    "rnb_sizes": Sizes,
    "rnb_weights": Weights,
    "rnb_forward_args": ForwardArgs,
    "rnb_backward_args": BackwardArgs,
}


class StatusCode(c_int32):
    """The result of a function that may fail: `check` raises for it."""


# name -> result, arguments
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rnb_abi_version": (c_int32, ()),
    "rnb_build_info": (c_char_p, ()),
    "rnb_last_error": (c_char_p, ()),
    "rnb_plan_create": (StatusCode, (POINTER(Spec), c_int64, c_int64, c_uint32, POINTER(c_void_p))),
    "rnb_plan_destroy": (None, (c_void_p,)),
    "rnb_plan_sizes": (StatusCode, (c_void_p, POINTER(Sizes))),
    "rnb_pack": (StatusCode, (c_void_p, POINTER(Weights), c_void_p)),
    "rnb_forward": (StatusCode, (c_void_p, POINTER(ForwardArgs))),
    "rnb_backward": (StatusCode, (c_void_p, POINTER(BackwardArgs))),
    "rnb_set_num_threads": (StatusCode, (c_int32,)),
    "rnb_get_num_threads": (c_int32, ()),
    "rnb_bench_multiply_add": (StatusCode, (c_int32, c_int64, POINTER(c_int64))),
    "rnb_bench_read": (StatusCode, (c_void_p, c_int64, c_int64)),
}


def declare(library: ctypes.CDLL) -> None:
    """Give every function of the table its argument types, its result and, where it may fail, its error check.

    Raises:
        NativeError: the library lacks a function.
    """

    def check(result: StatusCode, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if result.value != Status.OK:
            message = library.rnb_last_error().decode()
            raise (ArgumentError if result.value == Status.INVALID_ARGUMENT else NativeError)(message)

    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise NativeError(f"it has no function {name}")
        function.restype, function.argtypes = result, arguments
        if result is StatusCode:
            function.errcheck = check
