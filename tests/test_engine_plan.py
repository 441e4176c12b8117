"""Plans on the caller's memory, the memory kept between calls, and the handshake with the compiled library."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge import _native
from rnnbridge._native import find, interface
from rnnbridge.engine import aligned_empty, memory, unsupported
from tests.samples import CELLS, inputs_of, spec_of, weights_of

SPEC = spec_of("lstm", num_layers=2, hidden_size=17)
T, N = 7, 3


def memory_of(plan: rb.Plan) -> dict[str, np.ndarray]:
    """What `Plan.bind` needs beside x and y."""
    return {"packed": plan.pack(weights_of(SPEC).arrays), "workspace": aligned_empty(plan.workspace_nbytes)}


def test_a_plan_runs_on_the_callers_memory_as_the_layer_does() -> None:
    plan, given = rb.Plan(SPEC, T, N), inputs_of(SPEC, N, lengths=True)
    y, hn, cn = np.full((T, N, 17), 9, "f"), given.h0.copy(), given.c0.copy()
    states = {"h0": hn, "c0": cn, "hn": hn, "cn": cn}
    plan.forward(given.x, y=y, lengths=given.lengths, **states, **memory_of(plan))
    wanted, (h, c) = rb.layer(weights_of(SPEC))(given.x, (given.h0, given.c0), given.lengths)
    assert all(np.array_equal(one, other) for one, other in ((y, wanted), (hn, h), (cn, c)))


def test_a_bound_run_repeats_over_the_same_memory() -> None:
    plan, first, second = rb.Plan(SPEC, T, N), inputs_of(SPEC, N), inputs_of(SPEC, N, seed=5)
    x, y = np.empty_like(first.x), np.empty((T, N, 17), "f")
    run = plan.bind(x, y=y, **memory_of(plan))
    for given in (first, second, first):
        x[...] = given.x
        run()
        assert np.array_equal(y, rb.layer(weights_of(SPEC))(given.x)[0])


def test_sizes_are_the_documented_polynomials() -> None:
    """rnb_sizes in rnnbridge.h, computed here from its words."""
    tables = {"lstm": (4, 4, 3), "gru_after": (3, 4, 2), "gru_before": (3, 3, 3), "rnn_tanh": (1, 1, 2)}
    for (cell, (G, S, K)), layers, direction, dtype, T in product(
        tables.items(), (1, 2, 3), ("forward", "bidirectional"), ("float32", "float64"), (7, 401)
    ):
        spec = spec_of(cell, hidden_size=37, num_layers=layers, direction=direction)
        plan, e, D = rb.Plan(spec, T, N, dtype=dtype), np.dtype(dtype).itemsize, spec.num_directions
        round_up = lambda width, unit=64 // e: -(-width // unit) * unit  # noqa: E731
        rows, inputs = round_up(37), [spec.layer_input_size(layer) for layer in range(layers)]
        assert plan.packed_nbytes == e * sum(D * rows * (S + G * (size + 37)) for size in inputs)
        together, steps = (layers, min(T, -(-512 // N))) if D == 1 else (1, T)
        buffers = min(layers - 1, 2) * steps * N * round_up(spec.output_size)
        scratch = D * (96 + N) * S * rows + D * together * N * K * (rows + 64 // e) + buffers
        assert plan.workspace_nbytes == e * scratch + round_up(16 * N, 64)


def test_sizes_do_not_depend_on_threads() -> None:
    before, threads = repr(rb.Plan(SPEC, T, N)), rb.get_num_threads()
    rb.set_num_threads(threads + 3)
    assert repr(rb.Plan(SPEC, T, N)) == before
    rb.set_num_threads(threads)


def test_without_training_there_is_no_tape() -> None:
    assert rb.Plan(SPEC, T, N).tape_nbytes == 0
    assert rb.Plan(SPEC, T, N, training=True).tape_nbytes > 0


def test_what_the_engine_does_not_run_is_refused_with_every_reason() -> None:
    spec = spec_of("lstm", proj_size=2, peephole=True, clip=3.0, cell_clip=2.0, proj_clip=1.0, coupled="f=1-i")
    assert len(unsupported(spec)) == 6
    with pytest.raises(rb.Incompatible, match="proj_size=2") as caught:
        rb.Plan(spec, T, N)
    assert list(caught.value.reasons) == unsupported(spec)
    with pytest.raises(rb.Incompatible, match="peepholes"):
        rb.layer(weights_of(spec))
    assert not any(unsupported(spec_of(cell)) for cell in CELLS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"T": 0}, "T is 0; it is a whole number of at least 1"),
        ({"N": -1}, "N is -1; it is a whole number of at least 0"),
        ({"T": 2.0}, "T is 2.0; it is a whole number of at least 1"),
        ({"T": "7"}, "T is '7'"),
        ({"T": None}, "T is None"),
        ({"T": True}, "T is True"),
        ({"N": 3.5}, "N is 3.5"),
        ({"N": 2**63}, "N is 9223372036854775808; it is at most 9223372036854775807"),
        ({"N": 2**48}, "each must be below 281474976710656"),
        ({"dtype": "float16"}, "dtype is 'float16'; it is 'float32' or 'float64'"),
        ({"dtype": np.float16}, "dtype is <class 'numpy.float16'>; it is 'float32' or 'float64'"),
        ({"dtype": np.dtype(">f4")}, r"dtype is dtype\('>f4'\)"),
        ({"dtype": None}, "dtype is None"),
        ({"dtype": "single precision"}, "dtype is 'single precision'"),
    ],
)
def test_a_plan_that_cannot_be(arguments: dict, said: str) -> None:
    with pytest.raises(rb.ArgumentError, match=said):
        rb.Plan(SPEC, **{"T": T, "N": N, **arguments})


@pytest.mark.parametrize("options", [{}, {"training": True}, {"training": True, "recompute": True}])
def test_a_plan_beyond_the_address_space(options: dict) -> None:
    for cell, (steps, batch) in product(CELLS, ((2**40, 2**40), (2**21, 2**46))):
        spec = spec_of(cell, num_layers=2, direction="bidirectional")
        with pytest.raises(rb.ArgumentError, match="more memory than an address space has"):
            rb.Plan(spec, steps, batch, **options)


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64")])
def test_numpys_integers_and_dtypes_are_accepted(dtype: object) -> None:
    spec = spec_of("gru_before", hidden_size=np.int64(17), input_size=np.int32(5))
    plan = rb.Plan(spec, np.int64(T), np.uint8(N), dtype=dtype)
    assert repr(plan) == repr(rb.Plan(spec_of("gru_before", hidden_size=17), T, N, dtype="float64"))
    assert (plan.T, plan.N, plan.dtype) == (T, N, np.dtype("float64"))


def test_every_array_that_does_not_fit_is_named_at_once() -> None:
    plan = rb.Plan(SPEC, T, N)
    fitting = memory_of(plan)
    x, y = np.zeros((T, N, 5), "f"), np.zeros((T, N, 17), "f")
    with pytest.raises(rb.ArgumentError) as caught:
        plan.bind(x[1:], y=y.astype("d"), h0=np.zeros((2, N, 3), "f"), c0=np.zeros((17, N, 2), "f").T, **fitting)
    message = str(caught.value)
    for said in ("x is float32 [6, 3, 5]", "y is float64", "h0 is float32 [2, 3, 3]", "c0 is not C-contiguous"):
        assert said in message
    y.flags.writeable = False
    odd = aligned_empty(plan.workspace_nbytes + 8)[8:]
    short = aligned_empty(plan.workspace_nbytes - 1)
    for problem, said in (
        ({"y": y}, "y is read-only"),
        ({"workspace": odd}, "multiple of 64"),
        ({"workspace": short}, f"at least {plan.workspace_nbytes} bytes"),
        ({"packed": fitting["packed"][:-64]}, "packed is uint8"),
        ({"lengths": np.ones(N)}, "lengths is float64"),
        ({"lengths": np.ones(2 * N, int)[::2]}, "contiguous"),
    ):
        with pytest.raises(rb.ArgumentError, match=said):
            plan.bind(x, **{**fitting, **problem})
    with pytest.raises(rb.ArgumentError, match="features of x are not contiguous"):
        plan.bind(np.zeros((T, N, 10), "f")[..., ::2], **fitting)
    gru = rb.Plan(spec_of("gru_after"), T, N)
    with pytest.raises(rb.ArgumentError, match="GRU has no cell state"):
        gru.bind(x, packed=fitting["packed"], workspace=fitting["workspace"], c0=np.zeros((1, N, 3), "f"))


def test_packing_names_every_array_that_does_not_fit() -> None:
    arrays = dict(weights_of(SPEC).arrays)
    del arrays["bias_hh_l1"]
    arrays["weight_ih_l0"] = arrays["weight_ih_l0"].astype("d")
    arrays["weight_hh_l0"] = np.asfortranarray(arrays["weight_hh_l0"])
    with pytest.raises(rb.ArgumentError) as caught:
        rb.Plan(SPEC, 1, 1).pack(arrays)
    for said in ("bias_hh_l1 is missing", "weight_ih_l0 is float64", "weight_hh_l0 is not C-contiguous"):
        assert said in str(caught.value)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 1000])
def test_aligned_memory(nbytes: int) -> None:
    block = aligned_empty(nbytes)
    assert block.nbytes == nbytes
    assert block.ctypes.data % 64 == 0


def test_memory_is_kept_between_calls_bounded_by_the_largest_and_freed_by_trim() -> None:
    net = rb.layer(weights_of(SPEC))
    net.freeze()
    small, large = inputs_of(SPEC, N).x, inputs_of(SPEC, 31, steps=41).x
    rb.trim()
    for x in (small, large, small, large):
        net(x)
    kept = sum(block.nbytes for block in memory._free)
    assert rb.Plan(SPEC, 41, 31).workspace_nbytes <= kept < rb.Plan(SPEC, 41, 31).workspace_nbytes + 128
    rb.trim()
    assert not memory._free
    net(small)


def test_calls_at_the_same_time_never_share_memory() -> None:
    with memory.borrowed(100, 3) as (first, second), memory.borrowed(100) as (third,):
        assert not any(np.shares_memory(*pair) for pair in ((first, second), (first, third), (second, third)))
        assert all(block.ctypes.data % 64 == 0 for block in (first, second, third))


def test_threads_are_set_and_refused() -> None:
    before = rb.get_num_threads()
    rb.set_num_threads(3)
    assert rb.get_num_threads() == 3
    rb.set_num_threads(before)
    rb.set_num_threads(np.int64(5))
    assert rb.get_num_threads() == 5
    rb.set_num_threads(before)
    for n in (-1, 2.5, None, "2", True, 1025, 2**32 + 1):
        with pytest.raises(rb.ArgumentError, match="number of threads"):
            rb.set_num_threads(n)


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        (_native, "GATES", {"lstm": "ifog", "gru": "rzn", "rnn": "n"}, "gate orders"),
        (_native, "CONSTANTS", {"sigmoid": ()}, "words for activation"),
        (_native, "ABI_VERSION", 99, "needs 99"),
        (_native, "STRUCTS", {"rnb_spec": ctypes.c_int}, "struct sizes"),
        (_native, "version_of", lambda: "0.0.7", "this package is 0.0.7"),
        (interface, "FUNCTIONS", {"rnb_teleport": (None, ())}, "no function rnb_teleport"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object, said: str
) -> None:
    monkeypatch.setattr(module, name, value)
    if name == "CONSTANTS":
        monkeypatch.setitem(_native._WORDS, "activation", tuple(value))
    with pytest.raises(rb.NativeError, match=said):
        _native.library.__wrapped__()


def test_a_file_that_is_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / find.FILE_NAME
    path.write_bytes(b"not a library" * 99)
    monkeypatch.setenv(find.ENVIRONMENT, str(path))
    with pytest.raises(rb.NativeError, match="does not fit this rnnbridge"):
        _native.library.__wrapped__()


def test_a_missing_library_says_where_it_was_looked_for_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(find.ENVIRONMENT, "/nowhere/lib.so")
    with pytest.raises(rb.NativeError, match=r"RNNBRIDGE_LIBRARY is '/nowhere/lib.so'.*unset it"):
        find.find_library()
    monkeypatch.delenv(find.ENVIRONMENT)
    monkeypatch.setattr(find, "FILE_NAME", "librnnbridge.elsewhere")
    with pytest.raises(rb.NativeError) as caught:
        find.find_library()
    for said in ("the package: ", "librnnbridge.elsewhere", "installed distribution", "pip install", find.ENVIRONMENT):
        assert said in str(caught.value)


def test_the_table_has_every_function_of_the_header_and_no_other() -> None:
    header = (Path(__file__).parent.parent / "native" / "include" / "rnnbridge.h").read_text(encoding="utf-8")
    declared = {line.split("(")[0].split()[-1].lstrip("*") for line in header.splitlines() if line[:8] == "RNB_API "}
    assert declared == set(interface.FUNCTIONS)
