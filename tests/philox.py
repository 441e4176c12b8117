"""Dropout's masks from their definition, one feature at a time: Philox4x32-10 (Salmon et al. 2011) in whole numbers.

Written from the paper and from rnb_forward_args in rnnbridge.h, independently of the engine.
"""

from __future__ import annotations

import numpy as np

M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
WORD = 2**32


def philox(counter, key):
    """Four words of the counter and two of the key -> four random words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        low0, high0 = M0 * c0 % WORD, M0 * c0 // WORD
        low1, high1 = M1 * c2 % WORD, M1 * c2 // WORD
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + W0) % WORD, (k1 + W1) % WORD
    return c0, c1, c2, c3


def factor(p, seed, offset, layer, t, n, feature):
    """What a layer's output is multiplied by: 0 where it is dropped, else 1 / (1 - p)."""
    counter = (feature // 4 + 2**24 * layer) % WORD, n % WORD, t % WORD, offset % WORD
    word = philox(counter, (seed % WORD, seed // WORD))[feature % 4]
    return 1 / (1 - p) if (word >> 8) * 2.0**-24 >= p else 0.0


def masks(spec, T, N, p, seed, offset=0, sample_offset=0):
    """One array [T, N, .] per layer but the last, as the oracles take them."""
    shape = (T, N, spec.output_size)
    return [
        np.reshape([factor(p, seed, offset, layer, t, n + sample_offset, j) for t, n, j in np.ndindex(*shape)], shape)
        for layer in range(spec.num_layers - 1)
    ]
