"""ONNX models as bytes and files, parsed safely. Knows nothing of what a graph means."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from rnnbridge.errors import FormatError, MissingExtraError

# The fields of a ModelProto (onnx.proto) by number, with their wire type: 0 a number, 2 bytes of a stated length.
_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_NAMES = (2, 3, 4)  # producer_name, producer_version, domain


def is_model(head: bytes) -> bool:
    """Whether bytes begin as a serialised ModelProto does; protobuf has no magic number."""
    place, seen = 0, 0
    while place < len(head):
        tag, place = _varint(head, place)
        value, place = _varint(head, place)
        if _FIELDS.get(tag >> 3) != tag & 7 or (seen == 0 and tag >> 3 == 1 and not 1 <= value < 256):
            return False
        if tag >> 3 in _NAMES and not all(byte >= 32 for byte in head[place : place + value]):
            return False  # a TensorFlow SavedModel begins alike, with a message there
        place += value if tag & 7 == 2 else 0
        seen += 1
    return seen > 1


def onnx_package() -> Any:
    """The onnx package; MissingExtraError where it is not installed."""
    try:
        import onnx
        import onnx.inliner
        import onnx.numpy_helper
        import onnx.reference
    except ImportError as error:
        raise MissingExtraError("reading and writing ONNX models", "onnx", "onnx") from error
    return onnx


def read_model(path: Path) -> Any:
    """The ModelProto in a file, with the external data beside it.

    Raises:
        FormatError: truncated or not a model, or external data that is missing or lies outside the file's folder.
    """
    onnx = onnx_package()
    model = parse(path.read_bytes(), str(path))
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, TypeError, ValueError, onnx.checker.ValidationError) as error:
        raise FormatError(f"{path}: its external data cannot be read: {error}") from error
    return model


def parse(data: bytes, where: str) -> Any:
    """A ModelProto from bytes; `where` begins the message of an error."""
    onnx = onnx_package()
    protobuf: Any = importlib.import_module("google.protobuf.message")
    try:
        model = onnx.load_model_from_string(data)
    except protobuf.DecodeError as error:
        raise FormatError(f"{where} is truncated, damaged or no ONNX model ({len(data)} bytes): {error}") from error
    if not model.HasField("graph"):
        raise FormatError(f"{where} holds no graph ({len(data)} bytes): it is truncated or no ONNX model")
    return model


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A protobuf number and the place behind it; as much of it as there is."""
    value = shift = 0
    while place < len(data) and shift < 64:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 128:
            break
    return value, place
