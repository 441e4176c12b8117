"""Which outputs a training call drops between layers. Knows no plan."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Dropout of every layer's output but the last one's: each feature is kept with 1 - p, and then divided by 1 - p.

    What is dropped follows from these four and from the feature, the sample's place in the batch, the time step and the
    layer alone (Philox4x32-10; rnb_forward_args in rnnbridge.h): not from threads, lengths or the order of time.

    Args:
        p: 0 to 1.
        seed: of the whole training, 0 to 2**64 - 1.
        offset: of one call, 0 to 2**32 - 1; another for every call of a training.
        sample_offset: added to a sample's place in the batch, 0 to 2**32 - 1: a batch run in parts drops what it
            would drop in one.

    Raises:
        ArgumentError: naming what is out of range.
    """

    p: float = 0.0
    seed: int = 0
    offset: int = 0
    sample_offset: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.p, Real) or not 0 <= float(self.p) <= 1:
            raise ArgumentError(f"dropout's p is {self.p!r}; it is 0 to 1, the part of the features that is dropped")
        for name, bits in {"seed": 64, "offset": 32, "sample_offset": 32}.items():
            whole(f"dropout's {name}", getattr(self, name), least=0, most=2**bits - 1)
