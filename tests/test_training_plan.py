"""Training on the caller's memory: dirty buffers, sizes, and everything that does not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge._native import interface
from rnnbridge.engine import Accumulate, Dropout, aligned_empty
from rnnbridge.layers import Gradients
from tests.gradients import Problem, by_name, same_bits
from tests.running import layer_of, x_of
from tests.samples import CELLS, spec_of

T, N, H = 7, 3, 17
Arrays = dict[str, Any]


def nan_block(nbytes: int) -> np.ndarray:
    block = aligned_empty(nbytes)
    block[...] = 0xFF  # NaN in either dtype
    return block


class Run:
    """One training forward on memory that holds NaN wherever the engine has not written, and its backward."""

    def __init__(self, problem: Problem) -> None:
        spec, dtype = problem.spec, problem.dtype
        self.problem = problem
        self.plan = rb.Plan(spec, problem.T, problem.N, training=True, dtype=dtype, recompute=problem.recompute)
        states = self.plan.state_shape
        nan = {"y": (problem.T, problem.N, spec.output_size), "hn": states, "cn": states}
        nan |= {"dx": problem.given["x"].shape, "dh0": states, "dc0": states}
        self.arrays = {name: np.full(shape, np.nan, dtype) for name, shape in nan.items()}
        if not spec.has_cell_state:
            self.arrays["cn"] = self.arrays["dc0"] = None
        self.packed = self.plan.pack(problem.weights.arrays, out=nan_block(self.plan.packed_nbytes))
        self.tape = nan_block(self.plan.tape_nbytes)

    def forward(self, **changes: Any) -> None:
        given = {name: self.problem.given.get(name) for name in ("x", "h0", "c0")}
        outputs = {name: self.arrays[name] for name in ("y", "hn", "cn")}
        dropout = Dropout(p=self.problem.dropout, seed=2**40 + 77) if self.problem.dropout else None
        options = {"lengths": self.problem.steps(), "dropout": dropout, "generation": 5, **self.memory()}
        self.plan.forward(**{**given, **outputs, **options, **changes})

    def backward(self, **changes: Any) -> Arrays:
        given = {name: self.problem.given.get(name) for name in ("x", "h0", "c0", "dy", "dhn", "dcn")}
        wanted = {name: np.full_like(self.arrays[name], np.nan) for name in ("dx", "dh0", "dc0") if self.has(name)}
        weights = {n: np.full_like(array, np.nan) for n, array in self.problem.weights.arrays.items()}
        options = {"y": self.arrays["y"], "generation": 5, "dweights": weights, **self.memory()}
        self.plan.backward(**{**given, **wanted, **options, **changes})
        return {"x": wanted["dx"], **{n[1:]: wanted[n] for n in ("dh0", "dc0") if n in wanted}, **weights}

    def has(self, name: str) -> bool:
        return self.arrays[name] is not None

    def memory(self) -> Arrays:
        return {"packed": self.packed, "workspace": nan_block(self.plan.workspace_nbytes), "tape": self.tape}


def run_of(cell: str = "lstm", dtype: str = "float32", recompute: bool = False, **changes: Any) -> Run:
    spec = spec_of(cell, **{"hidden_size": H, "num_layers": 2, "direction": "bidirectional", **changes})
    run = Run(Problem(spec, T, N, dtype, "zeros", 0.3, recompute))
    run.forward()
    return run


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cell", CELLS)
def test_what_memory_held_before_changes_nothing(cell: str, dtype: str, recompute: bool) -> None:
    run = run_of(cell, dtype, recompute)
    tape = run.tape.copy()
    problem = run.problem
    net = problem.layer()
    wanted = by_name(problem.backward(net, problem.forward(net)[2]))
    for _ in range(2):
        assert same_bits(run.backward(), wanted)
        assert np.array_equal(run.tape, tape), "backward wrote to the tape"


def test_states_and_their_gradients_may_share_memory() -> None:
    run = run_of()
    wanted = run.backward()
    given = run.problem.given
    h, c = given["dhn"].copy(), given["dcn"].copy()
    got = run.backward(dhn=h, dcn=c, dh0=h, dc0=c)
    assert np.array_equal(h, wanted["h0"])
    assert np.array_equal(c, wanted["c0"])
    assert np.array_equal(got["x"], wanted["x"])


@pytest.mark.parametrize("which", list(Accumulate))
def test_either_kind_of_gradient_is_added_to(which: Accumulate) -> None:
    run = run_of()
    once = run.backward()
    into = {name: np.ones_like(array) for name, array in once.items()}
    inputs = {"dx": into["x"], "dh0": into["h0"], "dc0": into["c0"]}
    weights = {name: into[name] for name in run.problem.weights.arrays}
    run.backward(**inputs, dweights=weights, accumulate=which)
    for name, array in once.items():
        added = which == (Accumulate.WEIGHTS if name in weights else Accumulate.INPUTS)
        assert np.allclose(into[name], array + added, rtol=1e-6, atol=1e-6)


def test_an_empty_batch_has_gradients() -> None:
    for cell in CELLS:
        net = layer_of(cell, num_layers=2)
        x = np.zeros((T, 0, 5), "f")
        y, _, tape = net.forward(x, training=True)
        grads = net.backward(tape, np.zeros_like(y))
        assert grads.x.shape == x.shape
        assert all(array.shape == net.weights[n].shape and not array.any() for n, array in grads.weights.items())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: {"generation": 6}, "the weights were replaced, run the forward again"),
        (lambda run: {"tape": nan_block(run.plan.tape_nbytes)}, "tape holds no tape"),
        (lambda run: {"tape": run_of("lstm", bias="single").tape}, "by a plan of another spec"),
        (
            lambda run: {"tape": run_of("lstm", direction="forward", num_layers=4).tape},
            "by a plan of another spec",
        ),
        (lambda run: {"tape": run.tape[:-64]}, "tape is uint8"),
        (lambda run: {"y": None}, "y is NULL; backward reads"),
        (lambda run: {"y": run.arrays["y"][1:]}, r"y is float32 \[6, 3, 34\]"),
        (lambda run: {"x": run.problem.given["x"].astype("d")}, "x is float64"),
        (lambda run: {"dy": run.problem.given["dy"][:, :2]}, "dy is float32"),
        (lambda run: {"dhn": run.problem.given["dhn"][..., :3]}, "dhn is float32"),
        (lambda run: {"dx": run.problem.given["x"][1:]}, "dx is float32"),
        (lambda run: {"dh0": run.problem.given["h0"][1:]}, "dh0 is float32"),
        (lambda run: {"dweights": {"weight_ih_l9": np.zeros(3, "f")}}, "there is no weight 'weight_ih_l9'"),
        (lambda run: {"dweights": {"bias_ih_l0": np.zeros(3, "f")}}, r"d bias_ih_l0 is float32 \[3\]"),
        (lambda run: {"workspace": aligned_empty(8)}, "workspace is uint8"),
        (lambda run: {"threads": 0}, "threads is 0"),
        (lambda run: {"accumulate": 8}, "accumulate is 8"),
    ],
)
def test_a_backward_that_does_not_fit_is_refused_and_writes_nothing(change: Any, said: str) -> None:
    run = run_of()
    weights = {name: np.full_like(array, 9) for name, array in run.problem.weights.arrays.items()}
    dx = np.full_like(run.problem.given["x"], 9)
    with pytest.raises(rb.ArgumentError, match=said):
        run.backward(**{"dweights": weights, "dx": dx, **change(run)})
    assert (dx == 9).all()
    assert all((array == 9).all() for array in weights.values())


def test_a_tape_of_another_length_is_refused() -> None:
    run, spec = run_of(), spec_of("lstm", hidden_size=H, num_layers=2, direction="bidirectional")
    longer = Run(Problem(spec, T + 2, N, "float32", "zeros", 0.3))
    longer.forward()
    with pytest.raises(rb.ArgumentError, match="a plan of another spec, T, N or flags"):
        run.backward(tape=longer.tape)
    again = Run(Problem(spec, T, N, "float32", "zeros", 0.3, recompute=True))
    again.forward()
    with pytest.raises(rb.ArgumentError, match="a plan of another spec, T, N or flags"):
        again.backward(tape=run.tape)


def test_a_forward_that_does_not_fit_is_refused() -> None:
    run = run_of()
    with pytest.raises(rb.ArgumentError, match="dropout was given without a tape"):
        run.forward(tape=None)
    plan = rb.Plan(run.problem.spec, T, N)
    with pytest.raises(rb.ArgumentError, match="this plan cannot train"):
        plan.bind(run.problem.given["x"], **run.memory())
    with pytest.raises(rb.ArgumentError, match="y is NULL; with a tape it must be given"):
        run.forward(y=None)
    for lengths, said in (([1, 2, T + 1], r"lengths\[2\] is 8"), ([1, -1, 2], r"lengths\[1\] is -1")):
        before = run.tape.copy()
        with pytest.raises(rb.ArgumentError, match=said):
            run.forward(lengths=np.array(lengths))
        assert np.array_equal(run.tape, before)
    with pytest.raises(rb.ArgumentError, match="with a tape they must be apart"):
        run.forward(h0=run.arrays["hn"])
    with pytest.raises(rb.ArgumentError, match="give training=True too"):
        rb.Plan(run.problem.spec, T, N, recompute=True)


@pytest.mark.parametrize("name", ["silu", "gelu", "leaky_relu(0.0)", "elu(-0.5)", "scaled_tanh(0.0, 1.0)"])
def test_an_activation_whose_slope_does_not_follow_from_its_output_runs_and_is_not_trained(name: str) -> None:
    net = rb.RNN(5, 3, activation=name, seed=1)
    net(x_of())
    with pytest.raises(rb.ArgumentError, match=name.split("(")[0]):
        net.forward(x_of(), training=True)


BAD_CALLS: dict[str, tuple[Arrays, str]] = {
    "no tape": ({"tape": None}, "tape is a NoneType"),
    "another layer's": ({"tape": layer_of().forward(x_of(), training=True)[2]}, "the tape is another layer's"),
    "dy's shape": ({"dy": np.zeros((T, N, 3), "f")}, r"dy is \[7, 3, 3\]; it is \[7, 3, 17\]"),
    "dy's dtype": ({"dy": np.zeros((T, N, H))}, "dy is float64 and this layer is float32"),
    "dy is a list": ({"dy": [1.0]}, "dy is a list"),
    "dstate": ({"dstate": np.zeros((1, N, H), "f")}, r"the gradient of the state is .* a pair \(h, c\)"),
    "dstate's shape": ({"dstate": (np.zeros((1, 1, H), "f"), None)}, r"gradient of the state h is \[1, 1, 17\]"),
    "want": ({"want": ("x", "weight")}, "want has 'weight'; it is any of"),
    "accumulate": ({"accumulate": True}, "give it the gradients to add to"),
    "into x": ({"into": Gradients(x=np.zeros((T, N, 3), "f"))}, "into's x is"),
    "into weights": ({"into": Gradients(weights={"bias_ih_l0": np.zeros(3, "f")})}, "into's bias_ih_l0 is float32"),
    "into state": ({"into": Gradients(state=np.zeros((1, N, H), "f"))}, r"into's state has 1 array\(s\); it has 2"),
    "threads": ({"threads": 0}, "threads is 0"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_backward_says_what_was_given_and_what_is_accepted(name: str) -> None:
    net = layer_of()
    y, _, tape = net.forward(x_of(), training=True)
    arguments, said = BAD_CALLS[name]
    with pytest.raises(rb.ArgumentError, match=said):
        net.backward(**{"tape": tape, "dy": np.zeros_like(y), **arguments})


def test_the_flags_are_the_headers() -> None:
    header = (Path(__file__).parent.parent / "native" / "include" / "rnnbridge.h").read_text(encoding="utf-8")
    for prefix, flags in {"RNB_PLAN_": interface.PlanFlag, "RNB_ACCUMULATE_": interface.Accumulate}.items():
        declared = dict(re.findall(rf"{prefix}([A-Z]+) = (\d+)", header))
        assert {one.name: str(one.value) for one in flags} == declared
