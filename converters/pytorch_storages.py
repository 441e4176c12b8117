"""Tensors as `torch.save` pickles them: a storage, an offset, sizes and strides. Imports neither torch nor files.

The functions that a pickle calls to rebuild tensors are those of torch/_utils.py (2.13); `MEANING` is what each of them
stands for here. Where NumPy has no numbers for a tensor, `Tensor.unreadable` says what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError
from rnnbridge.files.narrow import widened
from rnnbridge.files.unpickle import Global

Array = NDArray[Any]
_UTILS = "torch._utils"
# What a storage's class is called -> the dtype of a tensor in it.
_KINDS = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "UntypedStorage": "uint8", "QInt8Storage": "qint8", "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}  # fmt: skip
_STORED = {
    "float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": "u2", "int64": "i8", "int32": "i4", "int16": "i2",
    "int8": "i1", "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "?", "complex128": "c16",
    "complex64": "c8",
}  # fmt: skip
_SIZES = {"qint8": 1, "quint8": 1, "qint32": 4, "quint4x2": 1, "quint2x4": 1}


@dataclass(frozen=True)
class Storage:
    """A piece of memory: the dtype its class says, its key in the file, and where in that it begins, in elements."""

    dtype: str
    key: str
    begin: int = 0


@dataclass(frozen=True)
class Tensor:
    """A view of a storage. `unreadable` says what the tensor is where NumPy has no numbers for it."""

    dtype: str
    storage: Storage | None = None
    offset: int = 0
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    conjugated: bool = False
    negated: bool = False
    unreadable: str = ""


@dataclass
class Storages:
    """The storages of one file. `order` is that of their bytes; all tensors together take at most `largest` bytes."""

    where: str
    largest: int
    order: Literal["<", ">"] = "<"
    content: dict[str, bytes] = field(default_factory=dict)
    _taken: int = 0

    def array(self, name: str, tensor: Tensor) -> Array:
        """A tensor's numbers, contiguous; float16 and bfloat16 widened.

        Raises:
            FormatError: a storage that is missing, a view that leaves it, or one that claims far more than the file.
        """
        dtype = np.dtype(_STORED[tensor.dtype]).newbyteorder(self.order)
        self._taken += math.prod(tensor.size) * dtype.itemsize
        if self._taken > self.largest:  # strides of 0 can claim any size, and any number of tensors the same storage
            raise FormatError(
                f"{self.where}: {name} {list(tensor.size)}, with what comes before it, "
                "is far larger than the file that holds it"
            )
        view = self._view(name, tensor, dtype)
        array: Array = widened(np.ascontiguousarray(view, dtype.newbyteorder("=")), tensor.dtype)
        array = array.conj() if tensor.conjugated else array
        return -array if tensor.negated else array

    def _view(self, name: str, tensor: Tensor, dtype: np.dtype[Any]) -> Array:
        if 0 in tensor.size:
            return np.empty(tensor.size, dtype)
        storage = tensor.storage
        if storage is None or storage.key not in self.content:
            raise FormatError(f"{self.where}: {name} lies in a storage that is not in the file")
        content = self.content[storage.key]
        elements = np.frombuffer(content, dtype, len(content) // dtype.itemsize)
        first = storage.begin + tensor.offset
        last = first + sum((extent - 1) * step for extent, step in zip(tensor.size, tensor.stride, strict=True))
        if last >= len(elements):
            raise FormatError(
                f"{self.where}: {name} ends at element {last + 1} of a storage that has {len(elements)} (truncated?)"
            )
        steps = [step * dtype.itemsize for step in tensor.stride]
        return np.lib.stride_tricks.as_strided(elements[first:], tensor.size, steps, writeable=False)


def storage_of(kind: Any, key: Any, begin: Any = 0) -> Storage:
    """A storage from its class, its key, and where it begins in what has that key."""
    name = kind.name if isinstance(kind, Global) else str(kind)
    if name not in _KINDS or not isinstance(key, str):
        raise ValueError(f"a storage of kind {name}, which no PyTorch has")
    return Storage(_KINDS[name], key, _whole(begin))


def itemsize(dtype: str) -> int:
    """The bytes of one element."""
    return np.dtype(_STORED[dtype]).itemsize if dtype in _STORED else _SIZES[dtype]


def rebuilt(what: Global, arguments: tuple[Any, ...]) -> Any:
    """What a call in a pickle stands for: a tensor, a dict; None for any other."""
    if what == Global("collections", "OrderedDict"):
        return dict(arguments[0]) if arguments and isinstance(arguments[0], dict) else {}
    if what.module != _UTILS:
        return None
    if what.name in _REBUILDERS:
        return _REBUILDERS[what.name](*arguments)
    return Tensor("", unreadable=what.name.strip("_")) if "tensor" in what.name else None


def _strided(storage: Any, offset: Any, size: Any, stride: Any, dtype: str = "", metadata: Any = None) -> Tensor:
    if not isinstance(storage, Storage):
        raise TypeError("a tensor lies in what is no storage")
    sizes, strides = (tuple(_whole(extent) for extent in extents) for extents in (size, stride))
    if len(sizes) != len(strides) or len(sizes) > 32:
        raise ValueError(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
    kind = dtype or storage.dtype
    bits = metadata if isinstance(metadata, dict) else {}
    view = Tensor(kind, storage, _whole(offset), sizes, strides, bits.get("conj") is True, bits.get("neg") is True)
    return view if kind in _STORED else replace(view, unreadable=kind)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Tensor:
    """_rebuild_tensor, and _rebuild_tensor_v2 with requires_grad, hooks and metadata."""
    return _strided(storage, offset, size, stride, metadata=rest[2] if len(rest) > 2 else None)


def _tensor_of_dtype(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    """_rebuild_tensor_v3: a dtype that has no storage class of its own."""
    if not isinstance(dtype, Global):
        raise TypeError("a tensor's dtype is none of torch's")
    return _strided(storage, offset, size, stride, dtype.name, metadata)


def _sparse(layout: Any, *_: Any) -> Tensor:
    return Tensor("", unreadable=f"in {layout.name if isinstance(layout, Global) else 'sparse'} layout")


def _parameter(data: Any, *_: Any) -> Any:
    return data


_REBUILDERS: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": _tensor,
    "_rebuild_tensor_v2": _tensor,
    "_rebuild_tensor_v3": _tensor_of_dtype,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_qtensor": _tensor,
    "_rebuild_parameter": _parameter,
    "_rebuild_parameter_with_state": _parameter,
}


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 62:
        raise ValueError(f"a tensor's size, stride or offset is {str(number)[:40]}")
    return number
