"""Weights in the engine's panels, kept while the tensors are the same in the same version. Knows plans, no autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.weak import WeakTensorKeyDictionary

from rnnbridge.engine import Plan
from rnnbridge.engine.memory import Block
from rnnbridge.spec import RNNSpec


@dataclass(frozen=True)
class _Packing:
    """A layer's packed weights, and how to tell that they are still these: where each tensor is, its version, and its
    numbers, since PyTorch counts no version when `tensor.data` is written to.

    Args:
        bits: the tensors' own memory.
        packed: what it held.
        generation: a number for those numbers, by which a tape's backward knows them again.
    """

    spec: RNNSpec
    signs: list[tuple[int, int]]
    bits: list[Any]
    packed: list[Any]
    training: bool
    block: Block
    generation: int

    def fits(self, plan: Plan, signs: list[tuple[int, int]]) -> bool:
        same = self.signs == signs and self.training >= plan.training and self.spec == plan.spec
        return same and all((bits == packed).all() for bits, packed in zip(self.bits, self.packed, strict=True))


# By the first weight, so that a packing goes with its module. A cache alone: what is in it may go at any time.
_packings: Any = WeakTensorKeyDictionary()


def packed_weights(plan: Plan, weights: list[Any]) -> tuple[Block, int]:
    """The packed weights for a call of the plan, and their generation: another one for other numbers.

    Args:
        weights: tensors in the order of `RNNSpec.weight_shapes`.
    """
    signs = _signs(weights)
    known = _packings.get(weights[0])
    if known is not None and signs is not None and known.fits(plan, signs):
        return known.block, known.generation
    arrays = [weight.detach().contiguous().numpy() for weight in weights]
    block = plan.pack(dict(zip(plan.spec.weight_shapes(), arrays, strict=True)))
    bits = [array.view(np.uint32) for array in arrays]
    generation = _generation(bits)
    if signs is not None:
        copies = [array.copy() for array in bits]
        _packings[weights[0]] = _Packing(plan.spec, signs, bits, copies, plan.training, block, generation)
    return block, generation


def _generation(bits: list[Any]) -> int:
    """From the numbers alone, as the same weights may be packed anew: sums of rows, each row and array times another
    odd number."""
    total = 0
    for index, rows in enumerate(bits):
        sums = rows.sum(axis=-1, dtype=np.uint64)
        total = total * 0x9E3779B97F4A7C15 + int((sums * np.arange(1, 2 * sums.size, 2, dtype=np.uint64)).sum()) + index
    return total % 2**64


def _signs(weights: list[Any]) -> list[tuple[int, int]] | None:
    """None where PyTorch counts no versions, or where an array is not the tensor's own memory."""
    if any(weight.is_inference() or not weight.is_contiguous() for weight in weights):
        return None
    return [(weight.data_ptr(), weight._version) for weight in weights]
