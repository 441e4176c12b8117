"""torch.nn modules to be read: every kind, with sizes that show a mistake, and what they answer themselves."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its converter goes untested")

from tests.samples import H, I, Inputs  # noqa: E402 (after what is skipped without torch)

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "LSTM": ("LSTM", {}),
    "LSTM-proj": ("LSTM", {"proj_size": 2}),
    "GRU": ("GRU", {}),
    "RNN-tanh": ("RNN", {"nonlinearity": "tanh"}),
    "RNN-relu": ("RNN", {"nonlinearity": "relu"}),
}
MODULES = [
    pytest.param(
        kind,
        {**more, "num_layers": layers, "bidirectional": both, "bias": bias},
        id=f"{name}-{layers}-{both:d}-{bias:d}",
    )
    for (name, (kind, more)), layers, both, bias in product(KINDS.items(), (1, 2, 3), (False, True), (True, False))
]
CELLS = [
    pytest.param(kind, {**more, "bias": bias}, id=f"{name}-{bias:d}")
    for (name, kind, more), bias in product(
        [
            ("LSTMCell", "LSTMCell", {}),
            ("GRUCell", "GRUCell", {}),
            ("RNNCell-tanh", "RNNCell", {"nonlinearity": "tanh"}),
            ("RNNCell-relu", "RNNCell", {"nonlinearity": "relu"}),
        ],
        (True, False),
    )
]


def module_of(kind: str, arguments: dict[str, Any], dtype: torch.dtype = torch.float32) -> Any:
    """A seeded module I -> H, in inference."""
    torch.manual_seed(3)
    return getattr(torch.nn, kind)(I, H, **arguments, dtype=dtype).eval()


def says(arguments: dict[str, Any]) -> dict[str, str]:
    """What must be set to read a module's state_dict."""
    return {"nonlinearity": arguments["nonlinearity"]} if "nonlinearity" in arguments else {}


def same_bits(tensors: dict[str, Any], others: dict[str, Any]) -> bool:
    """Whether two state_dicts have the same names in the same order, dtypes and bits."""
    return list(tensors) == list(others) and all(
        tensor.dtype == others[name].dtype and torch.equal(tensor.view(torch.uint8), others[name].view(torch.uint8))
        for name, tensor in tensors.items()
    )


def answer(module: Any, given: Inputs) -> dict[str, np.ndarray]:
    """y, h and c of a module that is not batch-first, packed where there are lengths (none of them 0)."""
    x, h, c = (None if array is None else torch.from_numpy(array) for array in (given.x, given.h0, given.c0))
    state = h if c is None else (h, c)
    rnn = torch.nn.utils.rnn
    with torch.no_grad():
        if given.lengths is None:
            y, final = module(x, state)
        else:
            packed = rnn.pack_padded_sequence(x, torch.from_numpy(given.lengths), enforce_sorted=False)
            y, final = module(packed, state)
            y = rnn.pad_packed_sequence(y, total_length=len(x))[0]
    return _named(y, final)


def cell_answer(cell: Any, given: Inputs) -> dict[str, np.ndarray]:
    """y, h and c of a cell, step by step."""
    x, h, c = (None if array is None else torch.from_numpy(array) for array in (given.x, given.h0, given.c0))
    state, outputs = h[0] if c is None else (h[0], c[0]), []
    with torch.no_grad():
        for step in x:
            state = cell(step, state)
            outputs.append(state if c is None else state[0])
    return _named(torch.stack(outputs), state[None] if c is None else tuple(one[None] for one in state))


def _named(y: Any, final: Any) -> dict[str, np.ndarray]:
    states = final if isinstance(final, tuple) else (final,)
    return {"y": y.numpy(), **{name: state.numpy() for name, state in zip("hc", states, strict=False)}}
