"""Calls of a plan that a C program may get wrong: an error in words, and nothing written."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np
import pytest

from rnnbridge._native import interface, library
from rnnbridge.errors import ArgumentError
from tests.native.c_calls import RECOMPUTE, TRAINING, UNTOUCHED, Calls, Change, N, T, made, spec_struct, to
from tests.samples import spec_of

NAN = float("nan")


def test_what_is_changed_here_is_right_before() -> None:
    for cell, flags in product(("lstm", "gru_after"), (0, TRAINING, TRAINING | RECOMPUTE)):
        calls = Calls(cell, flags)
        library().rnb_pack(calls.plan, calls.weights, calls.forward.packed)
        library().rnb_forward(calls.plan, calls.forward)
        if flags:
            library().rnb_backward(calls.plan, calls.backward)
        gradients = [name for name in calls.written if name[0] == "d"]
        assert all(
            (array != UNTOUCHED).any() == (bool(flags) or n not in gradients) for n, array in calls.written.items()
        )
        library().rnb_plan_destroy(calls.plan)


def test_null_where_a_struct_or_a_plan_is_wanted() -> None:
    native, calls = library(), Calls()
    with pytest.raises(ArgumentError, match="rnb_spec is NULL"):
        made(None)
    with pytest.raises(ArgumentError, match="plan is NULL"):
        native.rnb_plan_create(spec_struct(spec_of("lstm")), T, N, 0, None)
    structs = {
        "plan_sizes": (interface.Sizes(),),
        "pack": (calls.weights, calls.forward.packed),
        "forward": (calls.forward,),
        "backward": (calls.backward,),
    }
    for function, (struct, *more) in structs.items():
        with pytest.raises(ArgumentError, match="plan is NULL"):
            getattr(native, f"rnb_{function}")(None, struct, *more)
        with pytest.raises(ArgumentError, match=r"rnb_\w+ is NULL"):
            getattr(native, f"rnb_{function}")(calls.plan, None, *more)
    native.rnb_plan_destroy(None)
    native.rnb_plan_destroy(calls.plan)
    assert all((array == UNTOUCHED).all() for array in calls.written.values())


def test_packing_to_no_place() -> None:
    calls = Calls()
    for place, said in ((None, "packed is NULL"), (calls.forward.packed + 8, "packed is not aligned to 64 bytes")):
        with pytest.raises(ArgumentError, match=said):
            library().rnb_pack(calls.plan, calls.weights, place)
    library().rnb_plan_destroy(calls.plan)
    assert (calls.written["packed"] == UNTOUCHED).all()


@pytest.mark.parametrize("function", ["plan_sizes", "pack", "forward", "backward"])
def test_a_struct_of_no_version(function: str) -> None:
    calls = Calls()
    structs = {"plan_sizes": interface.Sizes(), "pack": calls.weights, "forward": calls.forward}
    struct = structs.get(function, calls.backward)
    more = [calls.forward.packed] if function == "pack" else []
    grown = {"plan_sizes": interface.Sizes.tape_nbytes, "forward": interface.ForwardArgs.tape}
    smallest = grown[function].offset if function in grown else ctypes.sizeof(struct)
    for size in (0, 8, smallest - 8, 65537, 2**64 - 1):
        struct.struct_size = size
        with pytest.raises(ArgumentError, match=f"struct_size is {size}; "):
            getattr(library(), f"rnb_{function}")(calls.plan, struct, *more)
    library().rnb_plan_destroy(calls.plan)
    assert all((array == UNTOUCHED).all() for array in calls.written.values())


def off(name: str) -> Change:
    """Eight bytes beyond where the array starts."""
    return lambda struct: setattr(struct, name, getattr(struct, name) + 8)


def one_array(at: int) -> Change:
    def change(weights: Any) -> None:
        weights.arrays[at] = None

    return change


def lengths(**values: Any) -> Change:
    """Other lengths, which the struct keeps alive."""

    def change(args: Any) -> None:
        args.kept = np.array(values["of"], values.get("dtype", np.int64))
        to(lengths=args.kept.ctypes.data, lengths_itemsize=values.get("itemsize", args.kept.itemsize))(args)

    return change


BOTH: dict[str, tuple[Change, str]] = {
    "no packed": (to(packed=None), "packed is NULL"),
    "packed off": (off("packed"), "packed is not aligned to 64"),
    "no workspace": (to(workspace=None), "workspace is NULL"),
    "workspace off": (off("workspace"), "workspace is not aligned to 64"),
    "tape off": (off("tape"), "tape is not aligned to 64"),
    "no x": (to(x=None), "x is NULL"),
    "no y": (to(y=None), "y is NULL; "),
    "threads": (to(num_threads=-1), "num_threads is -1; accepted are 1 to 1024"),
    "threads beyond all": (to(num_threads=1025), "num_threads is 1025; accepted are 1 to 1024"),
    "fewest threads": (to(num_threads=-(2**31)), "num_threads is -2147483648"),
}
FORWARD: dict[str, tuple[Change, str]] = {
    "itemsize 0": (to(lengths_itemsize=0), "lengths_itemsize is 0; accepted are 4"),
    "itemsize 2": (to(lengths_itemsize=2), "lengths_itemsize is 2"),
    "itemsize negative": (to(lengths_itemsize=-8), "lengths_itemsize is -8"),
    "beyond T": (lengths(of=[1, 2, T + 1]), rf"lengths\[2\] is {T + 1}; accepted are 0 to T = {T}"),
    "negative": (lengths(of=[1, -1, 2]), r"lengths\[1\] is -1"),
    "beyond int32": (lengths(of=[2**32 + 1, 1, 1]), r"lengths\[0\] is 4294967297"),
    "int32 beyond T": (lengths(of=[1, 2, T + 1], dtype=np.int32), rf"lengths\[2\] is {T + 1}"),
    "int32 read as int64": (lengths(of=[1, 1, 1, 1, 1, 1], dtype=np.int32, itemsize=8), r"lengths\[0\] is 4294967297"),
    "y's steps in one place": (to(y_stride_t=0), "y_stride_t and y_stride_n are 0 and .*; a stride of 0 writes"),
    "y's rows in one place": (to(y_stride_n=0), "a stride of 0 writes several rows to one place"),
    "h in place": (to(hn=1, h0=1), "hn is h0 or cn is c0; with a tape"),
    "c in place": (to(cn=1, c0=1), "hn is h0 or cn is c0; with a tape"),
    **{f"dropout {p}": (to(dropout=p), f"dropout is {p}; accepted are 0 to 1") for p in (-0.5, 1.5, NAN)},
}
BACKWARD: dict[str, tuple[Change, str]] = {
    "no tape": (to(tape=None), "tape is NULL"),
    "no tape but x": (lambda args: to(tape=args.workspace)(args), "tape holds no tape"),
    "dx's steps in one place": (to(dx_stride_t=0), "dx_stride_t and dx_stride_n are 0 and .*; a stride of 0 writes"),
    "dx's rows in one place": (to(dx_stride_n=0), "a stride of 0 writes several rows to one place"),
    "generation": (to(weights_generation=1), "the weights were replaced, run the forward again"),
    "too few gradients": (to(dweights_count=15), "dweights_count is 15; this spec has 16 arrays"),
    "no count": (to(dweights_count=0), "dweights_count is 0"),
    "largest count": (to(dweights_count=2**64 - 1), "dweights_count is 18446744073709551615"),
    **{f"accumulate {n}": (to(accumulate=n), f"accumulate is {n}; its bits") for n in (4, 8, 2**32 - 1)},
}
PACK: dict[str, tuple[Change, str]] = {
    "no arrays": (to(arrays=None), "weights.arrays is NULL"),
    "one is NULL": (one_array(3), r"weights.arrays\[3\] is NULL"),
    "too few": (to(count=12), "weights.count is 12; this spec has 16 arrays, 4 per layer"),
    "none": (to(count=0), "weights.count is 0"),
    "largest count": (to(count=2**64 - 1), "weights.count is 18446744073709551615"),
}
TABLES = {"pack": PACK, "forward": BOTH | FORWARD, "backward": BOTH | BACKWARD}


@pytest.mark.parametrize("flags", [TRAINING, TRAINING | RECOMPUTE])
@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function, table in TABLES.items() for name in table]
)
def test_a_bad_call(function: str, name: str, flags: int) -> None:
    change, said = TABLES[function][name]
    with pytest.raises(ArgumentError, match=said):
        Calls(flags=flags).run(function, change)


@pytest.mark.parametrize("cell", ["gru_after", "gru_before", "rnn_tanh"])
@pytest.mark.parametrize(
    ("function", "field"),
    [("forward", "c0"), ("forward", "cn"), ("backward", "c0"), ("backward", "dcn"), ("backward", "dc0")],
)
def test_a_cell_state_where_there_is_none(cell: str, function: str, field: str) -> None:
    calls = Calls(cell)
    with pytest.raises(ArgumentError, match="for an LSTM only; they must be NULL"):
        calls.run(function, to(**{field: calls.forward.h0}))


def test_a_plan_that_cannot_train_takes_no_tape() -> None:
    with pytest.raises(ArgumentError, match="made without RNB_PLAN_TRAINING"):
        Calls(flags=0).run("forward", lambda args: to(tape=args.workspace)(args))
    calls = Calls(flags=0)
    with pytest.raises(ArgumentError, match="made without RNB_PLAN_TRAINING"):
        library().rnb_backward(calls.plan, calls.backward)
    library().rnb_plan_destroy(calls.plan)


@pytest.mark.parametrize(
    "changes",
    [
        {"T": T - 1}, {"flags": TRAINING | RECOMPUTE}, {"cell": "gru_after"}, {"num_layers": 1}, {"hidden_size": 16},
        {"bias": "single"}, {"direction": "reverse"}, {"merge": "sum"},
    ],
)  # fmt: skip
def test_a_tape_of_another_plan(changes: dict[str, Any]) -> None:
    other = Calls(**changes)
    library().rnb_pack(other.plan, other.weights, other.forward.packed)
    library().rnb_forward(other.plan, other.forward)
    with pytest.raises(ArgumentError, match="tape was filled by a plan of another spec, T, N or flags"):
        Calls().run("backward", to(tape=other.forward.tape))


@pytest.mark.parametrize("n", [-1, -(2**31), 1025, 2**31 - 1])
def test_a_number_of_threads_that_is_none(n: int) -> None:
    with pytest.raises(ArgumentError, match=f"the number of threads is {n}; accepted are 1 to 1024"):
        library().rnb_set_num_threads(n)


def test_nothing_is_wrong_with_an_empty_batch() -> None:
    plan = made(spec_struct(spec_of("lstm")), N=0, flags=TRAINING)
    library().rnb_forward(plan, interface.ForwardArgs())
    library().rnb_backward(plan, interface.BackwardArgs())
    library().rnb_plan_destroy(plan)
