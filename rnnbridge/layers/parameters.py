"""A layer's weights: arrays that it owns, written in place until they are frozen, and how the engine gets them.

Knows plans, no sequences.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.engine import Plan, borrowed
from rnnbridge.weights import RNNWeights

Array = NDArray[Any]


class InPlace(Mapping[str, Array]):
    """Name -> array: the arrays are written to, never replaced. `weights[name] -= step` writes to one."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __setitem__(self, name: str, array: Array) -> None:
        if name not in self._arrays or array is not self._arrays[name]:
            raise TypeError(f"a layer's arrays are written to, not replaced: weights[{name!r}][...] = new")

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return repr(self._arrays)


# Of all layers: next() is atomic, so that no two packings share a number.
_GENERATIONS = itertools.count(1)


@dataclass(frozen=True)
class Packing:
    """Weights as a training call found them, what they were packed into, and their generation."""

    arrays: dict[str, Array]
    packed: Array
    generation: int

    def is_of(self, arrays: dict[str, Array]) -> bool:
        """Whether these are the same bits."""
        return all(np.array_equal(self.arrays[name].view("u4"), array.view("u4")) for name, array in arrays.items())


class Parameters:
    """Copies of the arrays of `weights`, packed anew for every call until they are frozen.

    Attributes:
        arrays: name -> array.
        packed: the packed weights of a frozen layer, for evaluation; None until then.
    """

    def __init__(self, weights: RNNWeights) -> None:
        self.spec, self.dtype = weights.spec, weights.dtype
        self.arrays = {name: array.copy() for name, array in weights.arrays.items()}
        self.packed: Array | None = None
        self._plan = Plan(self.spec, T=1, N=1, dtype=self.dtype)
        self._training_plan: Plan | None = None
        self._latest: Packing | None = None
        self._frozen: dict[str, Packing] = {}

    def freeze(self) -> None:
        """Make the arrays read-only and pack them once."""
        for array in self.arrays.values():
            array.flags.writeable = False
        if self.packed is None:
            self.packed = self._plan.pack(self.arrays)

    def pack(self, out: Array | None = None) -> Array:
        """The packed weights as they are now, for as long as the caller likes: in `out`, unless they are frozen."""
        return self._plan.pack(self.arrays, out) if self.packed is None else self.packed

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[Array]:
        """The packed weights for one evaluation."""
        if self.packed is not None:
            yield self.packed
            return
        with borrowed(self._plan.packed_nbytes) as (scratch,):
            yield self.pack(out=scratch)

    def trained(self) -> tuple[Array, int]:
        """The packed weights for one training call, forward or backward, and the number of their generation: another
        one whenever the weights are other ones than at the last call."""
        if self.packed is None:
            packing = self._latest = self._as_they_are()
        else:
            if not self._frozen:
                self._frozen.setdefault("trained", self._as_they_are())  # atomic: threads that come at once agree
            packing = self._frozen["trained"]
        return packing.packed, packing.generation

    def _as_they_are(self) -> Packing:
        before = self._latest
        if before is not None and before.is_of(self.arrays):
            return before
        plan = self._training_plan = self._training_plan or Plan(self.spec, T=1, N=1, training=True, dtype=self.dtype)
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        return Packing(arrays, plan.pack(arrays), next(_GENERATIONS))
