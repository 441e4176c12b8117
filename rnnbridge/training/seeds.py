"""Many seeds from one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rnnbridge.engine.arguments import whole


def seeds(seed: int) -> Iterator[int]:
    """Independent seeds without end, the same for the same seed: one for each layer, and one for the order of samples.

        seed = seeds(0)
        layers = Embedding(97, 32, seed=next(seed)), rb.LSTM(32, 64, seed=next(seed), batch_first=True)

    Raises:
        ArgumentError: the seed is not a whole number of 0 to 2**64 - 1.
    """
    return _spawned(np.random.SeedSequence(whole("seed", seed, least=0, most=2**64 - 1)))


def _spawned(sequence: np.random.SeedSequence) -> Iterator[int]:
    while True:
        yield int(sequence.spawn(1)[0].generate_state(1, np.uint64)[0])
