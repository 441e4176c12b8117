"""The compiled library through ctypes: found, loaded on first use, and compared with this package before anything runs.

Knows the C interface; knows nothing of arrays, plans or layers.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from rnnbridge._native.find import find_library
from rnnbridge._native.interface import ABI_VERSION, ALIGNMENT, STRUCTS, Status, declare
from rnnbridge.activation import CONSTANTS
from rnnbridge.errors import NativeError
from rnnbridge.spec import GATES, Bias, Direction, Merge, OutputOrder, Reset
from rnnbridge.version import version_of

DTYPES = ("float32", "float64")
# Every word that crosses to C, by the header's name of its enumeration. The numbers are the library's own.
_WORDS: dict[str, tuple[str, ...]] = {
    "cell": tuple(GATES),
    "reset": ("none", *get_args(Reset)),
    "dtype": DTYPES,
    "direction": get_args(Direction),
    "bias": get_args(Bias),
    "merge": get_args(Merge),
    "output_order": get_args(OutputOrder),
    "activation": tuple(CONSTANTS),
}


@cache
def library() -> ctypes.CDLL:
    """The library, loaded once per process. Its functions check their arguments' types and raise on failure.

    Raises:
        NativeError: it is not there, does not load, or does not fit this package.
    """
    path = find_library()
    try:
        loaded = ctypes.CDLL(str(path))
        declare(loaded)
        differences = list(_differences(loaded))
    except (OSError, NativeError) as error:
        differences = [str(error)]
    if differences:
        raise NativeError(
            "\n  - ".join((f"{path} does not fit this rnnbridge:", *differences))
            + "\nThe library and the Python files come from different versions, or the library is for another machine."
            "\nInstall both anew: pip install --force-reinstall --no-deps --no-cache-dir rnnbridge     (or your clone)"
        )
    return loaded


@cache
def build_info() -> dict[str, Any]:
    """What the library says of itself: version, instruction sets, gate orders, codes (rnnbridge.h: rnb_build_info)."""
    return _told(library())


@cache
def codes(enumeration: str) -> dict[str, int]:
    """Word -> the number that stands for it in C, e.g. `codes("cell")["lstm"]`."""
    return dict(build_info()["codes"][enumeration])


def _told(loaded: ctypes.CDLL) -> dict[str, Any]:
    return dict(json.loads(loaded.rnb_build_info()))


def _differences(loaded: ctypes.CDLL) -> Iterator[str]:
    if (abi := loaded.rnb_abi_version()) != ABI_VERSION:
        yield f"its ABI is {abi}, this package needs {ABI_VERSION}"
        return
    info = _told(loaded)
    ours, theirs = version_of(), info["version"]
    if ours and theirs and ours != theirs:
        yield f"it is version {theirs}, this package is {ours}"
    expected = {
        "gate orders": (GATES, info["cells"]),
        "status codes": ({one.name.lower(): one.value for one in Status}, info["codes"]["status"]),
        "alignment": (ALIGNMENT, info["alignment"]),
        "struct sizes": ({name: ctypes.sizeof(struct) for name, struct in STRUCTS.items()}, info["struct_sizes"]),
        **{f"words for {name}": (sorted(words), sorted(info["codes"][name])) for name, words in _WORDS.items()},
    }
    for what, (here, there) in expected.items():
        if here != there:
            yield f"its {what} are {there}, this package has {here}"
