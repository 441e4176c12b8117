"""What a training call keeps until its backward: `Tape`. Knows no cell."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine import Plan, lent
from rnnbridge.layers.packed import Packed
from rnnbridge.layers.parameters import Parameters
from rnnbridge.layers.sequences import Sequences

Array = NDArray[Any]


class Tape:
    """One training call's record, for `Layer.backward`: the gates in the engine's form, and x, y, the initial state and
    the lengths by reference, which must stay as they are. The y that the caller got is read-only while the tape lives.

    Its memory is kept for the next tape when this one is gone; `rb.trim()` frees it.

    Attributes:
        plan, parameters, form: what was run, with which weights, on which sequences.
        arrays: x, y, h0 and c0 as the engine saw them.
        block: the engine's part.
        generation: of the weights that were run.
    """

    def __init__(self, plan: Plan, parameters: Parameters, form: Sequences | Packed, **arrays: Any) -> None:
        self.plan, self.parameters, self.form, self.arrays = plan, parameters, form, arrays
        self.block = lent(self, plan.tape_nbytes)
        self.generation = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the engine's part."""
        return self.plan.tape_nbytes

    def lock(self, y: Any) -> None:
        """Make what the caller gets read-only until the tape is gone."""
        arrays = [part for part in (y if isinstance(y, tuple) else (y,)) if isinstance(part, np.ndarray)]
        for array in arrays:
            array.flags.writeable = False
        weakref.finalize(self, _unlock, arrays).atexit = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a tape belongs to one forward, and is neither copied nor pickled: run the forward again")

    def __repr__(self) -> str:
        return f"<Tape T={self.plan.T} N={self.plan.N} {self.plan.dtype}, {self.nbytes} bytes>"


def _unlock(arrays: list[Array]) -> None:
    for array in arrays:
        array.flags.writeable = True
