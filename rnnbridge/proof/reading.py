"""What reading a layer did to its numbers, as the row it was read with says."""

from __future__ import annotations

from collections.abc import Iterator

from rnnbridge.inspection import row_of
from rnnbridge.proof.report import AppliedRewrite
from rnnbridge.weights import RNNWeights


def on_reading(layer: str, weights: RNNWeights, file: str) -> Iterator[AppliedRewrite]:
    """The rewrites of a layer that was read from `file`, "source" or "target"."""
    row = row_of(weights)
    if row is None:
        return
    for name in row.rewrites:
        # A sign turns back; a sum was rounded.
        yield AppliedRewrite(layer, name, f"on reading the {file}", not row.forget_bias, "")
