"""The safetensors container: eight bytes of header length, a JSON header, then the tensors' bytes.

Written from the format's description (README of github.com/huggingface/safetensors, "Format"), because the library's
NumPy side knows no bfloat16. Knows nothing of recurrent layers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError

Array = NDArray[Any]
_LONGEST_HEADER = 100_000_000  # the format's own limit
_ALIGNMENT = 8
# The format's dtype -> how it is stored here, and the name of the numbers. bfloat16 is kept as its bits.
_DTYPES = {
    "F64": ("<f8", "float64"), "F32": ("<f4", "float32"), "F16": ("<f2", "float16"), "BF16": ("<u2", "bfloat16"),
    "I64": ("<i8", "int64"), "I32": ("<i4", "int32"), "I16": ("<i2", "int16"), "I8": ("i1", "int8"),
    "U64": ("<u8", "uint64"), "U32": ("<u4", "uint32"), "U16": ("<u2", "uint16"), "U8": ("u1", "uint8"),
    "BOOL": ("?", "bool"), "C64": ("<c8", "complex64"),
}  # fmt: skip
_NAMES = {name: (code, layout) for code, (layout, name) in _DTYPES.items()}


@dataclass(frozen=True)
class Tensor:
    """An array and what its numbers are: "float32", "bfloat16" (the array holds uint16 bits) ..."""

    dtype: str
    array: Array


@dataclass(frozen=True)
class Contents:
    """A file's tensors, its metadata, and name -> dtype of the tensors that NumPy has no numbers for."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    unreadable: dict[str, str]


def looks_like_safetensors(head: bytes) -> bool:
    """Whether a file that begins so is one, truncated or not."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= _LONGEST_HEADER


def read_safetensors(path: Path) -> Contents:
    """Read a file; the arrays are read-only views of one buffer.

    Raises:
        FormatError: truncated, a header that is not the format's, offsets that overlap or do not fit the shapes.
    """
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    if not looks_like_safetensors(content[:9]) or 8 + length > len(content):
        raise FormatError(f"{path}: no safetensors file, or truncated: its header says {length} bytes")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
        metadata = header.pop("__metadata__", {})
        spans = {name: _span(entry) for name, entry in header.items()}
        if not all(isinstance(part, str) for pair in metadata.items() for part in pair):
            raise TypeError("the metadata are not texts")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: damaged safetensors header: {error}") from error
    _check_spans(path, spans, len(content) - 8 - length)
    readable = {name: span for name, span in spans.items() if span[0] in _DTYPES}
    tensors = {name: _tensor(path, name, span, content, 8 + length) for name, span in readable.items()}
    unreadable = {name: span[0] for name, span in spans.items() if name not in readable}
    return Contents(tensors, metadata, unreadable)


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A file's content; the same tensors and metadata give the same bytes. Tensors lie in the order given."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    blocks, end = [], 0
    for name, tensor in tensors.items():
        code, layout = _NAMES[tensor.dtype]
        blocks.append(np.ascontiguousarray(tensor.array, layout).tobytes())
        header[name] = {
            "dtype": code,
            "shape": list(tensor.array.shape),
            "data_offsets": [end, end + len(blocks[-1])],
        }
        end += len(blocks[-1])
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *blocks])


_Span = tuple[str, tuple[int, ...], int, int]


def _span(entry: dict[str, Any]) -> _Span:
    begin, end = entry["data_offsets"]
    numbers = (*entry["shape"], begin, end)
    if not all(type(number) is int and number >= 0 for number in numbers) or not isinstance(entry["dtype"], str):
        raise TypeError("a tensor's shape or offsets are not whole numbers of at least 0")
    return entry["dtype"], tuple(entry["shape"]), begin, end


def _check_spans(path: Path, spans: dict[str, _Span], size: int) -> None:
    """The tensors' bytes follow each other without a gap and fill the file, as the format demands."""
    expected = 0
    for name, (_, _, begin, end) in sorted(spans.items(), key=lambda item: item[1][2:]):
        if begin != expected or end < begin:
            raise FormatError(f"{path}: tensor {name!r} lies at bytes {begin} to {end} and should begin at {expected}")
        expected = end
    if expected != size:
        raise FormatError(f"{path}: its tensors take {expected} bytes and {size} are there (truncated?)")


def _tensor(path: Path, name: str, span: _Span, content: bytes, start: int) -> Tensor:
    code, shape, begin, end = span
    layout, dtype = _DTYPES[code]
    count = math.prod(shape)
    if count * np.dtype(layout).itemsize != end - begin:
        raise FormatError(f"{path}: tensor {name!r}, {code} {list(shape)}, does not fit in {end - begin} bytes")
    return Tensor(dtype, np.frombuffer(content, layout, count, start + begin).reshape(shape))
