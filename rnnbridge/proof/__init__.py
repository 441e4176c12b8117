"""Conversions and comparisons that are proven: `convert` and `verify`. Stands above the converters and the engine."""

from rnnbridge.proof.conversion import convert
from rnnbridge.proof.report import Report
from rnnbridge.proof.verification import verify

__all__ = ["Report", "convert", "verify"]
