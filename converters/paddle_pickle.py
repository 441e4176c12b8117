"""Paddle's `.pdparams` container, a pickled dict of arrays, read as data and written without Paddle. Runs nothing.

What is in one is said by python/paddle/framework/io.py (_build_saved_state_dict, _pickle_save) and io_utils.py
(_unpack_saved_dict: arrays too large for an old protocol are in slices). Knows no recurrent layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError
from rnnbridge.files.unpickle import Global, Inert, Meaning, unpickle
from rnnbridge.files.zip import largest_content

Array = NDArray[Any]
_SLICES = "UnpackBigParamInfor@@"
_SECOND_TABLE = "StructuredToParameterName@@"
_DEPTH = 4  # {"model": state_dict} and the like
_MOST_VISITS = 1 << 18  # dicts that hold each other could name exponentially many
_FRAME = 9  # bytes of the opcode that says how long a frame is
# What the first value is: a dict, plain or ordered.
_FIRST = (b"}", b"ccollections\nOrderedDict", b"\x8c\x0bcollections")
_KINDS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")


def looks_like_params(head: bytes) -> bool:
    """Whether a file that begins so is a pickled dict that holds an array of NumPy."""
    if head[:1] != b"\x80" or head[1:2] not in (b"\x02", b"\x03", b"\x04"):
        return False
    first = head[2 + _FRAME * (head[2:3] == b"\x95") :]
    return first.startswith(_FIRST) and b"_reconstruct" in head


def read_params(path: Path) -> dict[str, Array]:
    """Name -> array; those in a dict within the dict are named "outer.inner". Read-only views of what was read.

    Raises:
        FormatError: truncated or damaged, no dict, or an array that its bytes do not make.
    """
    where = str(path)
    with path.open("rb") as file:
        value = _content(unpickle(file, where, Meaning(_called, lambda identity: None)))
        if file.read(1):
            raise FormatError(f"{where}: byte {file.tell() - 1}: more follows the pickle")
    if not isinstance(value, dict):
        kind = value.what if isinstance(value, Inert) else type(value).__name__
        raise FormatError(f"{where} holds a {kind}; a dict of arrays is read")
    arrays: dict[str, Array] = {}
    for name, array in _Dicts(where, largest_content(path.stat().st_size)).arrays(value):
        if name in arrays:
            raise FormatError(f"{where}: two arrays are called {name}")
        arrays[name] = array
    return arrays


def params_bytes(arrays: Mapping[str, Array]) -> bytes:
    """A file's content, by the protocol that paddle.save takes, 4. The names in it are those of NumPy 1 and 2."""
    out = [b"\x80\x04}("]
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<")
        data = np.ascontiguousarray(array, kind).tobytes()
        shape = b"(" + b"".join(_integer(extent) for extent in array.shape) + b"t"
        dtype = b"cnumpy\ndtype\n" + _text(kind.str[1:]) + b"\x89\x88\x87R"
        dtype += b"(K\x03" + _text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
        state = b"(K\x01" + shape + dtype + b"\x89\x8e" + len(data).to_bytes(8, "little") + data + b"tb"
        out += [_text(name), empty, state]
    return b"".join([*out, b"u."])


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return b"X" + len(encoded).to_bytes(4, "little") + encoded


def _integer(number: int) -> bytes:
    return b"\x8a\x08" + number.to_bytes(8, "little", signed=True)


def _called(what: Global, arguments: tuple[Any, ...]) -> Any:
    """What the calls in such a pickle give; arrays and dtypes stay placeholders, whose state follows."""
    if what.module in ("builtins", "__builtin__") and what.name == "tuple" and len(arguments) == 1:
        return tuple(arguments[0])
    if str(what) == "_codecs.encode" and len(arguments) == 2:  # how protocol 2 says bytes
        text, encoding = arguments
        return text.encode("latin1") if isinstance(text, str) and encoding == "latin1" else None
    return None


class _Dicts:
    """The arrays in a dict and in the dicts in it. `largest` is how many bytes all of them may have."""

    def __init__(self, where: str, largest: int) -> None:
        self._where = where
        self._bytes_left, self._visits_left = largest, _MOST_VISITS

    def arrays(self, value: Mapping[Any, Any], prefix: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Array]]:
        """Name -> array, down to a depth."""
        self._visits_left -= len(value)
        if self._visits_left < 0:
            raise FormatError(f"{self._where}: dicts within dicts without end")
        parts: set[Any] = set()
        sliced = value.get(_SLICES, {})
        for name, said in sliced.items() if isinstance(sliced, dict) else ():
            names = said.get("slices") if isinstance(said, dict) else None
            yield f"{prefix}{name}", self._joined(value, names, said, f"{prefix}{name}")
            parts.update(names or ())
        for key, one in value.items():
            name, inner = f"{prefix}{key}", _content(one)
            if key in (_SLICES, _SECOND_TABLE) or key in parts:
                continue
            if isinstance(inner, dict):
                if depth:
                    yield from self.arrays(inner, f"{name}.", depth - 1)
            elif isinstance(inner, Inert) and inner.what.name == "_reconstruct":
                yield name, self._array(inner, name)

    def _joined(self, value: Mapping[Any, Any], names: Any, said: Mapping[str, Any], name: str) -> Array:
        """An array out of its slices."""
        shape: Any = said.get("OriginShape") if isinstance(said, dict) else None
        given = [value.get(one) for one in names if isinstance(one, str)] if isinstance(names, list) else []
        held = [one for one in given if isinstance(one, Inert)]
        if not held or len(held) < len(names) or not _is_shape(shape):
            raise FormatError(f"{self._where}: {name}: is said to be in slices, and they are not there")
        flat = np.concatenate([self._array(one, name).reshape(-1) for one in held])
        if flat.size != math.prod(shape):
            raise FormatError(f"{self._where}: {name}: its slices hold {flat.size} numbers and it is {list(shape)}")
        return flat.reshape(shape)

    def _array(self, one: Inert, name: str) -> Array:
        array = _array(one, f"{self._where}: {name}")
        self._bytes_left -= array.nbytes
        if self._bytes_left < 0:
            raise FormatError(f"{self._where}: its arrays are larger than such a file can hold; {name} is one too many")
        return array


def _content(one: Any) -> Any:
    """A tensor is a pair of its name and an array; an ordered dict a placeholder with items."""
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        return one[1]
    return one.items if isinstance(one, Inert) and one.what.name == "OrderedDict" else one


def _array(one: Inert, where: str) -> Array:
    """An array of numbers from the placeholder of its pickle: version, shape, dtype, order, bytes."""
    state = one.state if isinstance(one.state, tuple) else ()
    if len(state) != 5 or not _is_shape(state[1]) or not isinstance(state[4], bytes | bytearray):
        raise FormatError(f"{where}: no array of plain numbers")
    _, shape, dtype, fortran, data = state
    kind = _dtype(dtype, where)
    if math.prod(shape) * kind.itemsize != len(data):
        raise FormatError(f"{where}: {kind} {list(shape)} takes other than the {len(data)} bytes that are there")
    array = np.frombuffer(data, kind).reshape(shape, order="F" if fortran is True else "C")
    return array.astype(kind.newbyteorder("=")) if kind.byteorder == ">" else array


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple | list) and all(type(extent) is int and 0 <= extent < 1 << 62 for extent in shape)


def _dtype(one: Any, where: str) -> np.dtype[Any]:
    name = one.arguments[0] if isinstance(one, Inert) and one.what.name == "dtype" and one.arguments else None
    order = one.state[1] if isinstance(one, Inert) and isinstance(one.state, tuple) and len(one.state) > 1 else "|"
    if name not in _KINDS or order not in ("<", ">", "|", "="):
        raise FormatError(f"{where}: numbers of kind {name!r}; read are {', '.join(_KINDS)}")
    return np.dtype(f"{order}{name}")
