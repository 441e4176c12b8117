"""The library as a C program sees it: the header compiles as C99, the example runs, nothing else is exported."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rnnbridge._native import codes, interface, library
from rnnbridge._native.find import find_library
from rnnbridge.errors import ArgumentError, NativeError
from rnnbridge.reference import forward
from rnnbridge.spec import RNNSpec
from tests.samples import BIASES, spec_of

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "native" / "include"
HEADER = INCLUDE / "rnnbridge.h"
DECLARED = set(re.findall(r"\b(rnb_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)))
CC = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")
# Of examples/infer.c
T, N, I, H, L, G = 5, 3, 4, 6, 2, 4
LENGTHS = np.array([5, 2, 3])


def made_up(*shape: int, scale: float) -> np.ndarray:
    """The example's numbers: its sine of the index, in float32."""
    index = np.arange(np.prod(shape), dtype=np.float32)
    values = np.float32(scale) * np.sin(np.float32(0.7) * index + np.float32(scale))
    return values.astype(np.float32).reshape(shape)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    if CC is None:
        pytest.skip("there is no C compiler")
    library, binary = find_library(), tmp_path / "infer"
    source = ROOT / "examples" / "infer.c"
    link = (str(library), f"-Wl,-rpath,{library.parent}", "-lm")
    subprocess.run([CC, *STRICT, "-I", str(INCLUDE), str(source), "-o", str(binary), *link], check=True)
    return binary


def test_the_example_prints_the_reference(program: Path) -> None:
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    numbers = [[float(word) for word in line.split()[1:]] for line in text.splitlines() if line.startswith("  ")]
    printed = np.array(numbers).reshape(N, T + 1, H)
    spec = RNNSpec(cell="lstm", input_size=I, hidden_size=H, num_layers=L, bias="double")
    scales = {"weight_ih": 0.5, "weight_hh": 0.4, "bias_ih": 0.3, "bias_hh": 0.2}
    arrays = {
        name: made_up(*shape, scale=scales[name[: name.rindex("_l")]]) for name, shape in spec.weight_shapes().items()
    }
    wanted = forward(spec, arrays, made_up(T, N, I, scale=1.0), lengths=LENGTHS)
    # Printed to six decimals; sines of two C libraries differ in their last bit.
    limit = 0.5e-6 + 64 * np.finfo(np.float32).eps
    assert np.abs(printed[:, :T] - wanted.y.transpose(1, 0, 2)).max() <= limit
    assert np.abs(printed[:, T] - wanted.h[L - 1]).max() <= limit
    assert all((printed[n, length:T] == 0).all() for n, length in enumerate(LENGTHS))


def test_the_header_is_c99() -> None:
    if CC is None:
        pytest.skip("there is no C compiler")
    subprocess.run([CC, *STRICT, "-fsyntax-only", "-x", "c", str(HEADER)], check=True)


@pytest.mark.parametrize("bias", BIASES)
def test_the_headers_table_of_arrays_is_the_specs(bias: str) -> None:
    row = re.search(rf"^ \*   bias {bias} +([a-z_, ]+)(?: \*/)?$", HEADER.read_text(), flags=re.MULTILINE)
    assert row, "the table has no such row; has a formatter joined its lines?"
    assert row[1].split(", ") == list(spec_of("lstm", bias=bias).tensor_shapes(0))


def test_what_is_declared_is_exported() -> None:
    library = ctypes.CDLL(str(find_library()))
    assert len(DECLARED) >= 10
    assert all(hasattr(library, name) for name in DECLARED)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("nm"), reason="needs the nm of Linux's binutils")
def test_nothing_else_is_exported() -> None:
    command = ["nm", "--dynamic", "--defined-only", str(find_library())]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert {line.split()[-1].split("@")[0] for line in lines} == DECLARED


class LongerSpec(interface.Spec):
    """rnb_spec as a later version might have it."""

    _fields_ = (("extra", ctypes.c_int64),)


class LongerSizes(interface.Sizes):
    """rnb_sizes as a later version might have it."""

    _fields_ = (("tape_nbytes", ctypes.c_size_t),)


def lstm_of(struct: type[interface.Spec], **fields: int) -> interface.Spec:
    """A small LSTM; sigmoid for all three activations."""
    words = {"cell": "lstm", "reset": "none", "dtype": "float64", "direction": "forward", "bias": "none"}
    numbers = {name: codes(name)[word] for name, word in {**words, "merge": "concat", "output_order": "input"}.items()}
    slots = (interface.Activation * 3)(*[interface.Activation(code=codes("activation")["sigmoid"])] * 3)
    return struct(**numbers, num_layers=1, input_size=5, hidden_size=3, activations=slots, **fields)


def plan_of(spec: interface.Spec) -> ctypes.c_void_p:
    plan = ctypes.c_void_p()
    library().rnb_plan_create(spec, 7, 3, 0, plan)
    return plan


def test_a_newer_callers_longer_struct_is_accepted_if_the_rest_is_zero() -> None:
    known, longer = interface.Sizes(), LongerSizes()
    for spec, sizes in ((lstm_of(interface.Spec), known), (lstm_of(LongerSpec), longer)):
        plan = plan_of(spec)
        library().rnb_plan_sizes(plan, sizes)
        library().rnb_plan_destroy(plan)
    assert longer.struct_size == ctypes.sizeof(LongerSizes)
    assert longer.packed_nbytes == known.packed_nbytes > 0
    assert longer.workspace_nbytes == known.workspace_nbytes > 0
    assert longer.tape_nbytes == 0


def test_a_newer_callers_longer_struct_is_refused_if_the_rest_says_something() -> None:
    with pytest.raises(NativeError, match="rnb_spec sets a field that this library does not know; use a newer one"):
        plan_of(lstm_of(LongerSpec, extra=1 << 56))
    plan = plan_of(lstm_of(interface.Spec))
    with pytest.raises(NativeError, match="rnb_sizes sets a field"):
        library().rnb_plan_sizes(plan, LongerSizes(tape_nbytes=1))
    library().rnb_plan_destroy(plan)


@pytest.mark.parametrize("size", [0, 8, ctypes.sizeof(interface.Spec) - 1, 65537])
def test_a_struct_of_no_version_is_refused(size: int) -> None:
    spec = lstm_of(interface.Spec)
    spec.struct_size = size
    with pytest.raises(ArgumentError, match=f"rnb_spec.struct_size is {size}"):
        plan_of(spec)
