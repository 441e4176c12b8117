"""Loading and saving: which format, and nothing of what is in one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rnnbridge.catalogue import Format, Live, Settings, WriteOptions, Written, catalogue
from rnnbridge.errors import ArgumentError, FileAccessError, FormatError
from rnnbridge.files.atomic import replacing
from rnnbridge.weights import Bundle, RNNWeights

_HEAD = 512


def load(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 (the public name)
    settings: Mapping[str, str] | Settings | None = None,
) -> Bundle:
    """Read the recurrent layers of a file.

    Args:
        path: the file.
        format: its format's name; None finds it from the content.
        settings: what the file does not say, by key or "layer.key"; `rnnbridge inspect` lists what is assumed. A
            `Settings` object is checked by whoever made it.

    Raises:
        FileAccessError: no such file, or not permitted.
        FormatError: an unknown format, a damaged file, or one without a recurrent layer that is no whole model.
        ArgumentError: an unknown format name, or a setting that nothing takes.
    """
    path = path_of(path)
    head = _head_of(path)
    chosen = find_format(path, head) if format is None else format_named(format)
    asked = Settings.of(settings)
    try:
        bundle = chosen.read(path, asked)
    except OSError as error:
        if isinstance(error, FileAccessError):
            raise
        raise FormatError(f"{path} cannot be read as {chosen.name}: {error}") from error
    if not bundle.layers and not bundle.is_model:
        raise FormatError(f"{path}: no recurrent layer in it ({len(bundle.tensors)} other arrays)")
    if asked is not settings:
        asked.check_all_used()
    return bundle


def save(
    what: RNNWeights | Bundle,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 (the public name)
    *,
    overwrite: bool = False,
    batch_first: bool | None = None,
    settings: Mapping[str, str] | None = None,
) -> Written:
    """Write weights, or a whole bundle, to a file.

    Args:
        what: one layer or stack, a layer of rnnbridge's own (rb.LSTM ...), or what `load` gave.
        path: the file to be written; its name says the format unless `format` does.
        overwrite: replace an existing file.
        batch_first: the order of sequences that the file or its constructor line says; None keeps the source's.
        settings: options of the format.

    Returns:
        What was written, and what was left out.

    Raises:
        TargetExistsError, FileAccessError: nothing was written.
        Incompatible: the format cannot hold a layer; `reasons` has every reason.
    """
    path = path_of(path)
    chosen = format_for(path, format)
    bundle = _as_bundle(what)
    with replacing(path, overwrite=overwrite) as draft:
        return write(bundle, draft, chosen, batch_first=batch_first, settings=settings)


def write(
    bundle: Bundle,
    draft: Path,
    chosen: Format,
    *,
    batch_first: bool | None,
    settings: Mapping[str, str] | Settings | None,
) -> Written:
    """Write a bundle to exactly this path, in this format. For `save` and for what proves before it publishes."""
    if chosen.write is None:
        raise ArgumentError(f"the format {chosen.name!r} is only read; written are {', '.join(_writable())}")
    if not bundle.layers and not (bundle.is_model and format_named(bundle.format).framework == chosen.framework):
        more = ", and a whole model only its own framework takes" if bundle.is_model else ""
        raise ArgumentError(f"there is no recurrent layer to write{more}")
    asked = Settings.of(settings)
    written = chosen.write(bundle, draft, WriteOptions(batch_first, _suffix(draft, chosen), asked))
    if asked is not settings:
        asked.check_all_used()
    return written


def from_framework(layer: Any) -> RNNWeights:
    """The weights of a live layer: a torch module, a Keras layer, an ONNX node ...

    Raises:
        ArgumentError: no converter knows such an object.
    """
    weights = _as_weights(layer)
    return weights if isinstance(weights, RNNWeights) else _live_for(layer).read(layer)


def to_framework(weights: RNNWeights, framework: str, *, into: Any = None, batch_first: bool | None = None) -> Any:
    """A live layer of a framework with these weights.

    Args:
        framework: "pytorch", "keras", ...
        into: fill this layer instead of making one.
        batch_first: None keeps the source's order.

    Raises:
        Incompatible: the framework cannot hold the layer, or `into` is another one.
    """
    weights = _as_weights(weights)
    if not isinstance(weights, RNNWeights):
        raise ArgumentError(f"{type(weights).__name__} is not RNNWeights; take one layer of a bundle: bundle['name']")
    known = catalogue().live
    if framework not in known:
        raise ArgumentError(f"unknown framework {framework!r}; live layers can be made for {', '.join(known)}")
    return known[framework].write(weights, into, batch_first)


def find_format(path: Path, head: bytes) -> Format:
    """The format of a file, from its content. Raises FormatError for one that no format knows."""
    for candidate in sorted(catalogue().formats.values(), key=lambda one: one.fallback):
        if candidate.sniff(path, head):
            return candidate
    by_name = [one.name for one in catalogue().formats.values() if path.name.endswith(one.suffixes)]
    begins = f"it begins {head[:8]!r}" if head else "it is empty"
    looks = f"by its name it should be {by_name[0]}, but {begins}" if by_name else begins
    known = ", ".join(catalogue().formats)
    raise FormatError(f"{path}: unknown or damaged file ({looks}); formats read: {known}")


def format_for(path: Path, name: str | None) -> Format:
    """The format to write: the one named, else the one whose longest suffix the name ends in."""
    if name is not None:
        return format_named(name)
    fitting = [
        (len(suffix), one.name)
        for one in catalogue().formats.values()
        for suffix in one.suffixes
        if path.name.endswith(suffix) and one.write is not None
    ]
    if not fitting:
        suffixes = ", ".join(s for one in catalogue().formats.values() if one.write for s in one.suffixes)
        raise ArgumentError(f"cannot tell the format to write from the name {path.name!r}; known endings: {suffixes}")
    return catalogue().formats[max(fitting, key=lambda pair: pair[0])[1]]


def format_named(name: str) -> Format:
    """A format by its name; ArgumentError lists the known ones."""
    known = catalogue().formats
    if name not in known:
        raise ArgumentError(f"unknown format {name!r}; known: {', '.join(known)}")
    return known[name]


def path_of(given: str | os.PathLike[str]) -> Path:
    """A path from what a caller gave; ArgumentError for what is none."""
    try:
        path = Path(given)
    except TypeError:
        raise ArgumentError(f"{given!r} is no path; give a str or a pathlib.Path") from None
    if not str(given) or "\0" in str(path):
        raise ArgumentError(f"{str(given)!r} is no name that a file can have")
    return path


def _head_of(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise FormatError(f"{path} is a folder; rnnbridge reads files")
        if not stat.S_ISREG(kind):  # a pipe would be waited for
            raise FormatError(f"{path} is no regular file (a device or a pipe)")
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error


def _as_bundle(what: RNNWeights | Bundle) -> Bundle:
    if isinstance(what, Bundle):
        return what
    weights = _as_weights(what)
    if isinstance(weights, RNNWeights):
        return Bundle({weights.origin.name or "rnn": weights}, format="memory")
    raise ArgumentError(
        f"{type(what).__name__} cannot be saved; save() takes RNNWeights, a Bundle or a layer of rnnbridge's own "
        "(rb.from_framework(layer) makes weights of a framework's layer)"
    )


def _as_weights(what: Any) -> Any:
    """The weights of a layer of rnnbridge's own, which knows how to give them; anything else as it is."""
    return what.to_weights() if hasattr(what, "to_weights") and not isinstance(what, type) else what


def _live_for(layer: Any) -> Live:
    if isinstance(layer, type):
        raise ArgumentError(f"{layer.__name__} is a class; give an object of it")
    for live in catalogue().live.values():
        if live.recognises(layer):
            return live
    kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
    raise ArgumentError(f"{kind} is no recurrent layer of {', '.join(catalogue().live)}")


def _suffix(path: Path, chosen: Format) -> str:
    return next((suffix for suffix in chosen.suffixes if path.name.endswith(suffix)), path.suffix)


def _writable() -> list[str]:
    return [one.name for one in catalogue().formats.values() if one.write is not None]
