"""rnnbridge: one set of trained recurrent weights, running everywhere.

    import rnnbridge as rb
    bundle = rb.load("gpu_model.h5")                   # any supported file
    report = rb.convert("gpu_model.h5", "cpu.pt")      # exact or refused, always proven
    net = rb.layer(bundle["context"], batch_first=True)  # runs on the native CPU engine
    y, state = net(x)                                  # x [N, T, I]

Importing this loads no framework and next to nothing else; names are fetched at first use.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnnbridge import training as training
    from rnnbridge.activation import Activation as Activation
    from rnnbridge.bundle import from_framework as from_framework
    from rnnbridge.bundle import load as load
    from rnnbridge.bundle import save as save
    from rnnbridge.bundle import to_framework as to_framework
    from rnnbridge.convention import Convention as Convention
    from rnnbridge.engine import Plan as Plan
    from rnnbridge.engine import get_num_threads as get_num_threads
    from rnnbridge.engine import set_num_threads as set_num_threads
    from rnnbridge.engine import trim as trim
    from rnnbridge.errors import ArgumentError as ArgumentError
    from rnnbridge.errors import DivergedError as DivergedError
    from rnnbridge.errors import FileAccessError as FileAccessError
    from rnnbridge.errors import FormatError as FormatError
    from rnnbridge.errors import Incompatible as Incompatible
    from rnnbridge.errors import LayoutError as LayoutError
    from rnnbridge.errors import MissingExtraError as MissingExtraError
    from rnnbridge.errors import NativeError as NativeError
    from rnnbridge.errors import RNNBridgeError as RNNBridgeError
    from rnnbridge.errors import SpecError as SpecError
    from rnnbridge.errors import TargetExistsError as TargetExistsError
    from rnnbridge.errors import VerificationError as VerificationError
    from rnnbridge.inspection import inspect as inspect
    from rnnbridge.layers import GRU as GRU
    from rnnbridge.layers import LSTM as LSTM
    from rnnbridge.layers import RNN as RNN
    from rnnbridge.layers import Gradients as Gradients
    from rnnbridge.layers import layer as layer
    from rnnbridge.proof import convert as convert
    from rnnbridge.proof import verify as verify
    from rnnbridge.slot import Slot as Slot
    from rnnbridge.spec import RNNSpec as RNNSpec
    from rnnbridge.tables import conventions as conventions
    from rnnbridge.tables import formats as formats
    from rnnbridge.weights import Assumption as Assumption
    from rnnbridge.weights import Bundle as Bundle
    from rnnbridge.weights import Origin as Origin
    from rnnbridge.weights import RNNWeights as RNNWeights
    from rnnbridge.weights import stack as stack

_HOME = {
    "activation": ("Activation",),
    "bundle": ("from_framework", "load", "save", "to_framework"),
    "convention": ("Convention",),
    "engine": ("Plan", "get_num_threads", "set_num_threads", "trim"),
    "errors": (
        "ArgumentError",
        "DivergedError",
        "FileAccessError",
        "FormatError",
        "Incompatible",
        "LayoutError",
        "MissingExtraError",
        "NativeError",
        "RNNBridgeError",
        "SpecError",
        "TargetExistsError",
        "VerificationError",
    ),
    "inspection": ("inspect",),
    "layers": ("GRU", "Gradients", "LSTM", "RNN", "layer"),
    "proof": ("convert", "verify"),
    "slot": ("Slot",),
    "spec": ("RNNSpec",),
    "tables": ("conventions", "formats"),
    "weights": ("Assumption", "Bundle", "Origin", "RNNWeights", "stack"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_MODULES = ("training",)
__all__ = sorted((*_MODULE_OF, *_MODULES))

# In a source tree that was not installed the converters lie beside the package, not in it.
if not (Path(__file__).parent / "converters").is_dir() and (Path(__file__).parent.parent / "converters").is_dir():
    __path__.append(str(Path(__file__).parent.parent))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("rnnbridge.version").version_of()
    if name in _MODULES:
        return importlib.import_module(f"rnnbridge.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rnnbridge' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rnnbridge.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
