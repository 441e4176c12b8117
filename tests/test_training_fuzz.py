"""Shapes and options that nobody thought of: hypothesis draws them, the oracle judges outputs and gradients.

RNNBRIDGE_FUZZ_EXAMPLES: how many; each number draws the same ones every time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.gradients import Problem, can_judge, judge
from tests.problems import MERGES, judgement
from tests.samples import BIASES, CELLS, DIRECTIONS, spec_of

EXAMPLES = int(os.environ.get("RNNBRIDGE_FUZZ_EXAMPLES", "150"))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    layers, direction = draw(st.integers(1, 4)), draw(st.sampled_from(DIRECTIONS))
    merges = MERGES[: 4 + (layers == 1)] if direction == "bidirectional" else ("concat",)
    orders = ("input", "processing") if direction == "reverse" and layers == 1 else ("input",)
    spec = spec_of(
        draw(st.sampled_from(list(CELLS))),
        input_size=draw(st.integers(1, 40)),
        hidden_size=draw(st.integers(1, 40)),
        num_layers=layers,
        direction=direction,
        merge=draw(st.sampled_from(merges)),
        output_order=draw(st.sampled_from(orders)),
        bias=draw(st.sampled_from(BIASES)),
    )
    T, N = draw(st.integers(1, 9)), draw(st.integers(0, 6))
    lengths = st.lists(st.integers(0, T), min_size=N, max_size=N).map(tuple)
    return Problem(
        spec,
        T,
        N,
        dtype=draw(st.sampled_from(("float32", "float64"))),
        lengths=draw(st.just("none") | lengths),
        dropout=draw(st.sampled_from((0.0, 0.25, 0.9))) if layers > 1 else 0.0,
        recompute=draw(st.booleans()),
        threads=draw(st.none() | st.integers(1, 5)),
        left_out=tuple(draw(st.sets(st.sampled_from(("dy", "dhn", "dcn"))))),
        want=tuple(draw(st.sets(st.sampled_from(("x", "state", "weights", *spec.weight_shapes()))))),
        accumulate=draw(st.booleans()),
    )


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(problems())
def test_what_hypothesis_draws(problem: Problem) -> None:
    exact, rough = judgement(problem)
    assume(can_judge(exact, rough))
    judge(problem.results(), exact, rough, problem.dtype)
