"""Where a layer's arrays lie among a model's: under a prefix that ends in a dot. Knows no framework."""

from __future__ import annotations

import re
from collections.abc import Collection

from rnnbridge.weights import Bundle

UNNAMED = "rnn"  # what a layer is called whose arrays have no prefix


def prefix_of(bundle: Bundle, name: str, taken: Collection[str]) -> str:
    """The prefix for a layer of a bundle, "" for the only one if it has no name.

    Args:
        taken: prefixes that others have, without their dots.
    """
    if list(bundle.layers) == [UNNAMED]:
        return ""
    safe = re.sub(r"[^\w.]", "_", name).strip("._") or UNNAMED
    while safe in taken:
        safe += "1"
    return f"{safe}."
