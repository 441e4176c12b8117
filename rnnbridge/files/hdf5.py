"""HDF5 files as plain trees of attributes and arrays, read safely. Knows nothing of what any framework keeps in them.

Only hard links are followed: external and soft links, external storage and virtual datasets are refused, so that a file
never makes us open another one. A file cannot claim more numbers than deflate could have packed into its own size.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.errors import FormatError, RNNBridgeError
from rnnbridge.files.hdf5_texts import Texts

Array = NDArray[Any]
SIGNATURE = b"\x89HDF\r\n\x1a\n"
_ATTRIBUTE_LIMIT = 64512  # what fits an object header; Keras splits longer lists of names into name0, name1, ...
_MAX_EXPANSION = 1032  # deflate's largest ratio
_MAX_DEPTH = 64
# h5py raises whatever the C library's error stack maps to.
_H5PY_ERRORS = (OSError, KeyError, IndexError, RuntimeError, ValueError, TypeError, ArithmeticError, MemoryError)


@dataclass
class Group:
    """A group: attributes, groups and arrays by name.

    Attributes are text, tuples of text, or NumPy values. When written, `bytes` become bytes (what old Keras
    decodes) and `str` one of any length.
    """

    attrs: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def group(self, path: str) -> Group | None:
        """The group at a path such as "layers/lstm", or None."""
        here: Group | None = self
        for part in _parts(path):
            here = here.groups.get(part) if here is not None else None
        return here

    def array(self, path: str) -> Array | None:
        """The array at a path, or None."""
        folder, _, name = "/".join(_parts(path)).rpartition("/")
        here = self.group(folder)
        return here.arrays.get(name) if here is not None else None

    def make(self, path: str) -> Group:
        """The group at a path, made with all above it where it is not there."""
        here = self
        for part in _parts(path):
            here = here.groups.setdefault(part, Group())
        return here

    def put(self, path: str, array: Array) -> None:
        """Store an array at a path."""
        folder, _, name = "/".join(_parts(path)).rpartition("/")
        self.make(folder).arrays[name] = array

    def names(self, key: str) -> tuple[str, ...] | None:
        """A list of names, joined from its pieces where it was split; None if there is none."""
        if key in self.attrs:
            return _as_names(key, self.attrs[key])
        pieces = [self.attrs[f"{key}{k}"] for k in range(len(self.attrs)) if f"{key}{k}" in self.attrs]
        return tuple(name for piece in pieces for name in _as_names(key, piece)) if pieces else None

    def walk(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """(path, array) of every array below."""
        for name, array in self.arrays.items():
            yield prefix + name, array
        for name, group in self.groups.items():
            yield from group.walk(f"{prefix}{name}/")


def read_hdf5(source: Path | bytes, label: str, skip: tuple[str, ...] = ()) -> Group:
    """Read a whole file into memory.

    Args:
        source: the file, or its content.
        label: what to call it in errors.
        skip: top-level groups that are left unread.

    Raises:
        FormatError: not an HDF5 file, a damaged one, or one that points outside itself.
    """
    import h5py

    with _as_format_error(label):
        content = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        with content, h5py.File(content, "r") as file:
            size = content.seek(0, io.SEEK_END)
            texts = Texts(content, size, file.userblock_size)
            return _Reader(label, size * _MAX_EXPANSION, texts, skip).group(file, "", 0)


def write_hdf5(root: Group, path: Path) -> None:
    """Write a tree to a file. The same tree gives the same bytes.

    Raises:
        OSError: the file cannot be written. On a full disk the C library would crash, so it writes to memory.
    """
    path.write_bytes(hdf5_bytes(root))


def hdf5_bytes(root: Group) -> bytes:
    """A tree as the content of a file."""
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        _write_group(root, file)
    return content.getvalue()


class _Reader:
    """One pass over a file, with a budget of bytes and the groups seen so far."""

    def __init__(self, label: str, budget: int, texts: Texts, skip: tuple[str, ...]) -> None:
        self.label, self.budget, self.texts, self.skip = label, budget, texts, skip
        self.seen: set[int] = set()

    def group(self, h5: Any, path: str, depth: int) -> Group:
        import h5py

        address = h5py.h5o.get_info(h5.id).addr
        if address in self.seen or depth > _MAX_DEPTH:
            raise FormatError(f"{self.label}: the group {path or '/'!r} contains itself, or lies too deep")
        self.seen.add(address)
        if not all(isinstance(name, str) for name in (*h5.attrs, *h5)):
            raise FormatError(f"{self.label}: names in the group {path or '/'!r} are not text")
        out = Group(attrs={key: self._attribute(h5.attrs, address, path, key) for key in h5.attrs})
        for name in h5:
            if depth == 0 and name in self.skip:
                continue
            self._take(out, h5, name, f"{path}/{name}", depth)
        return out

    def _take(self, out: Group, h5: Any, name: str, path: str, depth: int) -> None:
        import h5py

        if not isinstance(h5.get(name, getlink=True), h5py.HardLink):
            raise FormatError(f"{self.label}: {path!r} is a link to somewhere else, which rnnbridge does not follow")
        item = h5[name]
        if isinstance(item, h5py.Group):
            out.groups[name] = self.group(item, path, depth + 1)
        elif isinstance(item, h5py.Dataset):
            out.arrays[name] = self._array(item, path)

    def _array(self, dataset: Any, path: str) -> Array:
        if dataset.is_virtual or dataset.external:
            raise FormatError(f"{self.label}: the numbers of {path!r} lie in another file, which is not opened")
        if dataset.dtype.hasobject:
            raise FormatError(f"{self.label}: {path!r} holds {dataset.dtype}, not numbers")
        self._claim(dataset.nbytes, repr(path))
        return np.asarray(dataset[()])

    def _claim(self, size: int, what: str) -> None:
        self.budget -= size
        if self.budget < 0:
            raise FormatError(f"{self.label}: {what} claims {size} bytes, more than the file can hold")

    def _attribute(self, attrs: Any, address: int, path: str, key: str) -> Any:
        attribute = attrs.get_id(key)
        count = math.prod(attribute.shape)
        self._claim(count * attribute.dtype.itemsize, f"attribute {key!r} of {path or '/'!r}")
        if attribute.dtype.hasobject:
            texts = self.texts.of(address, key, count)
            value = np.array(texts, object) if attribute.shape else texts[0]
        else:
            value = attrs[key]
        try:
            if isinstance(value, np.ndarray) and value.dtype.kind in "SUO":
                return tuple(_text(one) for one in value.reshape(-1).tolist())
            return _text(value) if isinstance(value, (bytes, str)) else value
        except (UnicodeDecodeError, TypeError):
            raise FormatError(f"{self.label}: attribute {key!r} of {path or '/'!r} is not text") from None


@contextmanager
def _as_format_error(label: str) -> Iterator[None]:
    try:
        yield
    except (RNNBridgeError, FileNotFoundError, PermissionError):
        raise
    except _H5PY_ERRORS as error:
        raise FormatError(f"{label} is no HDF5 file, or a damaged one: {error}") from error


def _write_group(group: Group, h5: Any) -> None:
    for key, value in group.attrs.items():
        if isinstance(value, tuple):
            _write_names(h5.attrs, key, value)
        else:
            h5.attrs[key] = _fixed(value) if isinstance(value, bytes) else value
    for name, array in group.arrays.items():
        dataset = h5.create_dataset(name, data=array, track_times=False)
        if array.dtype.kind == "V":
            dataset.attrs["dtype"] = "bfloat16"  # as Keras 3 marks the bytes that HDF5 has no type for
    for name, child in sorted(group.groups.items()):  # the order in which they are read, so that bytes come out again
        _write_group(child, h5.create_group(name))


def _fixed(value: bytes) -> Any:
    """A fixed string; a long one does not fit an object header and is stored beside it."""
    return np.bytes_(value) if len(value) <= _ATTRIBUTE_LIMIT else value


def _write_names(attrs: Any, key: str, names: tuple[str, ...]) -> None:
    encoded = np.array([name.encode() for name in names]) if names else np.zeros(0, "S1")
    pieces = -(-encoded.nbytes // _ATTRIBUTE_LIMIT)
    if pieces <= 1:
        attrs[key] = encoded
        return
    for number, piece in enumerate(np.array_split(encoded, pieces + 1)):
        attrs[f"{key}{number}"] = piece


def _as_names(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, np.ndarray) and value.size == 0:
        return ()  # Keras writes an empty list of names as an empty array of numbers
    if not isinstance(value, tuple):
        raise FormatError(f"the attribute {key!r} is {value!r}, not a list of names")
    return value


def _text(value: bytes | str) -> str:
    if not isinstance(value, (bytes, str)):
        raise TypeError
    return value.decode() if isinstance(value, bytes) else value


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
