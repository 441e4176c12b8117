"""The containers of `torch.save` and `torch.jit.save`, opened without torch: what is pickled, and the storages' bytes.

The layouts are those of torch/serialization.py (_save, _legacy_save) and torch/csrc/jit/serialization (archives of
TorchScript, whose program is not looked at). Knows no recurrent layer.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rnnbridge.converters.pytorch_storages import Storage, Storages, itemsize, rebuilt, storage_of
from rnnbridge.errors import FormatError
from rnnbridge.files.unpickle import Meaning, unpickle
from rnnbridge.files.zip import largest_content, member_names, read_members

_MAGIC = 0x1950A86A20F9469CFC6C  # torch.serialization.MAGIC_NUMBER, which files before the zip format begin with
_PICKLED_MAGIC = _MAGIC.to_bytes(10, "little")
_LEGACY_VERSION = 1001
_COUNT = 8  # bytes before a storage in the format before the zip one: its number of elements


@dataclass(frozen=True)
class Contents:
    """What a file holds: plain values, `Tensor` and `Inert`; and the storages of its tensors."""

    value: Any
    storages: Storages


def looks_like_torch(path: Path, head: bytes) -> bool:
    """Whether a file is one of torch.save or torch.jit.save."""
    return _is_legacy(head) or any(_is_pickle(name) for name in member_names(path, head))


def _is_legacy(head: bytes) -> bool:
    """Whether a file begins with the pickled number, in any protocol: a few bytes of opcodes, then the number's."""
    return head.startswith(b"\x80") and head.find(_PICKLED_MAGIC, 0, 32) > 0


def open_archive(path: Path) -> Contents:
    """Read a file.

    Raises:
        FormatError: neither of torch's formats, truncated or damaged, or a pickle that no writer of torch makes.
    """
    with path.open("rb") as file:
        head = file.read(512)
    if not looks_like_torch(path, head):
        raise FormatError(f"{path}: not a file of torch.save; it begins {head[:8]!r}")
    return _zipped(path) if head.startswith(b"PK") else _legacy(path)


def _is_pickle(member: str) -> bool:
    folder, found, rest = member.partition("/data.pkl")
    return bool(found) and not rest and "/" not in folder


def _zipped(path: Path) -> Contents:
    members = read_members(path, checksums_optional=True)
    pickles = [name for name in members if _is_pickle(name)]
    if len(pickles) != 1:
        raise FormatError(f"{path}: {len(pickles)} members are called data.pkl; a file of torch.save has one")
    folder = pickles[0].removesuffix("data.pkl")
    storages = Storages(str(path), largest_content(path.stat().st_size), _byte_order(path, folder, members))
    prefix = f"{folder}data/"
    storages.content = {name[len(prefix) :]: data for name, data in members.items() if name.startswith(prefix)}
    value = unpickle(io.BytesIO(members[pickles[0]]), f"{path}: {pickles[0]}", Meaning(rebuilt, _zip_storage))
    return Contents(value, storages)


def _byte_order(path: Path, folder: str, members: Mapping[str, bytes]) -> Literal["<", ">"]:
    """Files from before there was a member for it come from little-endian machines, as torch.load takes it."""
    said = members.get(f"{folder}byteorder", b"little")
    if said not in (b"little", b"big"):
        raise FormatError(f"{path}: its byte order is {said[:20]!r}; it is little or big")
    return ">" if said == b"big" else "<"


def _zip_storage(identity: Any) -> Any:
    kind, storage, key, *_ = identity
    if kind != "storage":
        raise ValueError(f"a reference to a {str(kind)[:40]!r}, where a storage is meant")
    return storage_of(storage, key)


def _legacy(path: Path) -> Contents:
    stream = io.BytesIO(path.read_bytes())
    where, met = str(path), _Met()
    if (unpickle(stream, where), unpickle(stream, where)) != (_MAGIC, _LEGACY_VERSION):
        raise FormatError(f"{path}: another version of the format before PyTorch 1.6 than {_LEGACY_VERSION}")
    unpickle(stream, where)  # the writing machine's sizes of C types; the storages are little-endian everywhere
    value = unpickle(stream, where, Meaning(rebuilt, met.storage))
    keys = unpickle(stream, where)
    storages = Storages(where, largest_content(path.stat().st_size))
    for key in keys if isinstance(keys, list) else []:
        storages.content[_text(path, key)] = _stored(path, stream, met.dtypes.get(key))
    return Contents(value, storages)


class _Met:
    """The storages that a pickle of the old format names; their bytes come after it and do not say their dtype."""

    def __init__(self) -> None:
        self.dtypes: dict[str, str] = {}

    def storage(self, identity: Any) -> Any:
        kind, *rest = identity
        if kind == "module":  # a class with its source text beside it
            return rest[0]
        if kind != "storage":
            raise ValueError(f"a reference to a {str(kind)[:40]!r}, where a storage is meant")
        storage_class, key, _, _, view = rest
        storage: Storage = storage_of(storage_class, key, view[1] if view else 0)
        self.dtypes[key] = storage.dtype
        return storage


def _text(path: Path, key: Any) -> str:
    if not isinstance(key, str):
        raise FormatError(f"{path}: damaged: a storage has a {type(key).__name__} for its key")
    return key


def _stored(path: Path, stream: io.BytesIO, dtype: str | None) -> bytes:
    if dtype is None:
        raise FormatError(f"{path}: damaged: it has a storage that no tensor lies in")
    count = int.from_bytes(stream.read(_COUNT), "little")
    wanted = count * itemsize(dtype)
    content = stream.read(min(wanted, sys.maxsize))
    if len(content) != wanted:
        raise FormatError(f"{path}: truncated: {count} numbers of {dtype} should follow and {len(content)} bytes do")
    return content
