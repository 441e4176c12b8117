"""Every error that rnnbridge raises on purpose. Knows nothing of the rest of the package."""

from __future__ import annotations

from collections.abc import Iterable


class RNNBridgeError(Exception):
    """The root of every error that rnnbridge raises on purpose."""


class SpecError(RNNBridgeError, ValueError):
    """A description of a recurrent layer that contradicts itself or lacks something."""


class FormatError(RNNBridgeError, ValueError):
    """A file that is not what it should be: unknown, truncated, corrupt, or without a recurrent layer."""


class LayoutError(RNNBridgeError, ValueError):
    """Arrays whose shapes, names or gate letters do not fit the stated layout."""


class ArgumentError(RNNBridgeError, ValueError):
    """A call whose arguments do not fit: a shape, a dtype, a length, a setting."""


class Incompatible(RNNBridgeError, ValueError):
    """A layer that a target cannot hold. `reasons` lists every reason, not only the first."""

    def __init__(self, what: str, reasons: Iterable[str]) -> None:
        self.reasons: tuple[str, ...] = tuple(dict.fromkeys(reasons))
        super().__init__("\n  - ".join((what, *self.reasons)))


class TargetExistsError(RNNBridgeError, FileExistsError):
    """The file to be written is there already, and overwriting it was not asked for."""


class FileAccessError(RNNBridgeError, OSError):
    """A file that cannot be opened, read or written: missing, not permitted, disk full."""


class MissingExtraError(RNNBridgeError, ImportError):
    """An optional package is needed. The message ends in the line to type."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed: pip install 'rnnbridge[{extra}]'"
        )


class VerificationError(RNNBridgeError, ArithmeticError):
    """Two sides that should give the same numbers do not. `report` holds the comparison."""

    def __init__(self, message: str, report: object) -> None:
        self.report = report
        super().__init__(message)


class DivergedError(RNNBridgeError, ArithmeticError):
    """A training whose loss is no longer a number."""


class NativeError(RNNBridgeError, RuntimeError):
    """The compiled library is missing, of another version, or refused a call."""
