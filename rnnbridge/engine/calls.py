"""The structs of one call over memory that was checked: addresses, strides and numbers. Knows no plan."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from rnnbridge._native.interface import BackwardArgs, ForwardArgs
from rnnbridge.engine.dropout import Dropout
from rnnbridge.engine.memory import address
from rnnbridge.engine.threads import call_threads

Array = NDArray[Any]


class Run:
    """A checked call that may be repeated, and what has to live as long as it."""

    __slots__ = ("_call", "_keeps")

    def __init__(self, call: Callable[[], Any], keeps: object) -> None:
        self._call, self._keeps = call, keeps

    def __call__(self) -> None:
        self._call()


def forward_args(
    arrays: Mapping[str, Array | None], generation: int, dropout: Dropout | None, threads: int | None
) -> ForwardArgs:
    """rnb_forward_args from its pointers by name."""
    lengths = arrays["lengths"]
    args = ForwardArgs(
        **_addresses(arrays),
        **_strides(arrays, ("x", "y")),
        lengths_itemsize=0 if lengths is None else lengths.itemsize,
        num_threads=call_threads(threads),
        weights_generation=generation,
    )
    if dropout is not None:
        args.dropout, args.dropout_seed = dropout.p, dropout.seed
        args.dropout_offset, args.dropout_sample_offset = dropout.offset, dropout.sample_offset
    return args


def backward_args(
    arrays: Mapping[str, Array | None],
    dweights: list[Array | None],
    generation: int,
    accumulate: int,
    threads: int | None,
) -> BackwardArgs:
    """rnb_backward_args from its pointers by name, and the weights' gradients in the interface's order."""
    wanted = any(array is not None for array in dweights)
    return BackwardArgs(
        **_addresses(arrays),
        **_strides(arrays, ("x", "y", "dy", "dx")),
        **({"dweights": pointer_array(dweights), "dweights_count": len(dweights)} if wanted else {}),
        weights_generation=generation,
        accumulate=accumulate,
        num_threads=call_threads(threads),
    )


def pointer_array(arrays: Iterable[Array | None]) -> Any:
    """A C array of their addresses, NULL for None."""
    addresses = [None if array is None else address(array) for array in arrays]
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _addresses(arrays: Mapping[str, Array | None]) -> dict[str, int]:
    """Of those that there are; the others' fields are NULL from the start."""
    return {name: address(array) for name, array in arrays.items() if array is not None}


def _strides(arrays: Mapping[str, Array | None], names: tuple[str, ...]) -> dict[str, int]:
    return {
        f"{name}_stride_{axis}": array.strides[k] // array.itemsize
        for name in names
        if (array := arrays[name]) is not None
        for k, axis in enumerate("tn")
    }
