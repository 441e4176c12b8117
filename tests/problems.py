"""The matrix of training problems: every pair of options in one generated selection, and the corners.

RNNBRIDGE_TRAINING_DRAWS: how many problems are drawn beyond the corners; each number draws the same ones every time.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from tests.gradients import ALL, Arrays, Problem
from tests.samples import BIASES, CELLS, DIRECTIONS, spec_of

DRAWS = int(os.environ.get("RNNBRIDGE_TRAINING_DRAWS", "300"))
MERGES = ("concat", "sum", "mul", "ave", "none")
LENGTHS = ("none", "mixed", "zeros", "all zero")
OPTIONS: dict[str, tuple[Any, ...]] = {
    "cell": tuple(CELLS),
    "layers": (1, 2, 3, 4),
    # direction, merge, output order
    "form": (
        ("forward", "concat", "input"),
        ("reverse", "concat", "input"),
        ("reverse", "concat", "processing"),
        *(("bidirectional", merge, "input") for merge in MERGES),
    ),
    "bias": BIASES,
    "sequences": ((1, 1), (5, 1), (11, 2), (7, 3), (3, 5), (2, 7), (3, 13), (1, 17)),  # T and N
    # I and H: one, primes, I < H, I > H, and one less and one more than the vectors and panels of every set.
    "sizes": (
        (1, 1), (7, 3), (2, 5), (17, 1), (1, 7), (3, 15), (5, 16), (3, 17),
        (11, 8), (5, 31), (33, 32), (7, 33), (65, 63), (13, 64), (3, 65),
    ),
    "dtype": ("float32", "float64"),
    "lengths": LENGTHS,
    "dropout": (0.0, 0.4),
    "recompute": (False, True),
    "threads": (1, 2, 3),
    "left_out": ((), ("dy",), ("dhn", "dcn")),
    "want": (ALL, ("x",), ("state",), ("weights",), ("x", "weight_ih_l0"), ("weight_hh_l0",)),
    "accumulate": (False, True),
}  # fmt: skip
Choice = dict[str, int]
Pair = tuple[tuple[str, int], tuple[str, int]]


def possible(choice: Choice) -> bool:
    """Whether a layer can be all that, of the options that are chosen."""
    chosen = {name: OPTIONS[name][at] for name, at in choice.items()}
    layers = chosen.get("layers")
    stacked = chosen.get("dropout", 0) > 0  # there are layers to drop outputs between
    if {"none", "processing"} & set(chosen.get("form", ())):
        return layers in (None, 1) and not stacked
    return layers != 1 or not stacked


def pairs(choice: Choice) -> set[Pair]:
    return set(combinations(choice.items(), 2))


def every_pair() -> set[Pair]:
    """All that can be met."""
    options = ([(name, at) for at in range(len(values))] for name, values in OPTIONS.items())
    both = (pair for one, other in combinations(options, 2) for pair in product(one, other))
    return {pair for pair in both if possible(dict(pair))}


@cache
def choices(count: int) -> tuple[Choice, ...]:
    """So many choices of one option each; of a few by chance the one that meets the most new pairs, while there are."""
    rng, left, found = np.random.default_rng(20), every_pair(), []

    def by_chance() -> Choice:
        while not possible(choice := {name: int(rng.integers(len(values))) for name, values in OPTIONS.items()}):
            pass
        return choice

    for _ in range(count):
        some = [by_chance() for _ in range(20 if left else 1)]
        found.append(max(some, key=lambda choice: len(pairs(choice) & left)))
        left -= pairs(found[-1])
    return tuple(found)


def problem_of(choice: Choice) -> Problem:
    one = {name: OPTIONS[name][at] for name, at in choice.items()}
    (direction, merge, order), (T, N), (I, H) = one["form"], one["sequences"], one["sizes"]
    spec = spec_of(
        one["cell"],
        input_size=I,
        hidden_size=H,
        num_layers=one["layers"],
        direction=direction,
        merge=merge,
        output_order=order,
        bias=one["bias"],
    )
    how = {name: one[name] for name in ("dtype", "lengths", "dropout", "recompute", "threads")}
    return Problem(spec, T, N, **how, **{name: one[name] for name in ("left_out", "want", "accumulate")})


def drawn(count: int = DRAWS) -> dict[str, Problem]:
    return {f"drawn-{index}": problem_of(choice) for index, choice in enumerate(choices(count))}


def corners() -> dict[str, Problem]:
    """Each option on its own and in the company that broke fused kernels elsewhere."""
    found = {}
    for cell, direction, bias in product(CELLS, DIRECTIONS, BIASES):
        spec = spec_of(cell, num_layers=2, direction=direction, bias=bias)
        found[f"{cell}-{direction}-{bias}"] = Problem(spec, 5, 3, lengths="zeros", threads=2)
    for cell, lengths, recompute in product(CELLS, LENGTHS, (False, True)):
        spec = spec_of(cell, num_layers=3, direction="bidirectional")
        name = f"{cell}-{lengths}" + "-recompute" * recompute
        found[name] = Problem(spec, 7, 3, "float64", lengths, 0.3, recompute, 3)
    for cell, merge in product(CELLS, MERGES):
        spec = spec_of(cell, num_layers=1 + (merge != "none"), direction="bidirectional", merge=merge)
        found[f"{cell}-{merge}"] = Problem(spec, 5, 3, lengths="mixed")
    for cell in CELLS:
        spec = spec_of(cell, direction="reverse", output_order="processing")
        found[f"{cell}-processing"] = Problem(spec, 5, 3, lengths="mixed")
        for T, recompute in ((67, False), (131, True)):  # more steps than a chunk has
            spec = spec_of(cell, num_layers=2, direction="bidirectional")
            found[f"{cell}-long" + "-recompute" * recompute] = Problem(spec, T, 2, "float64", "mixed", 0, recompute, 2)
    return found | stretches()


def stretches() -> dict[str, Problem]:
    """More steps than a stretch has: 512 / N, rounded up."""
    found = {}
    for cell, direction, recompute in product(CELLS, DIRECTIONS, (False, True)):
        end = "-recompute" * recompute
        spec = spec_of(cell, num_layers=3, direction=direction)  # three stretches of 4 steps
        found[f"{cell}-{direction}-stretches{end}"] = Problem(spec, 11, 131, "float64", "zeros", 0.3, recompute, 3)
        spec = spec_of(cell, num_layers=2, direction=direction)  # of a single step
        found[f"{cell}-{direction}-wide{end}"] = Problem(spec, 3, 521, "float32", "zeros", 0.3, recompute, 2)
        merge = {"forward": "concat", "reverse": "concat", "bidirectional": "mul"}[direction]
        spec = spec_of(cell, num_layers=2, direction=direction, merge=merge, bias="single")  # two, of 3 and 1
        found[f"{cell}-{direction}-two-stretches{end}"] = Problem(spec, 4, 171, "float32", "mixed", 0.0, recompute, 2)
    return found


@cache
def _exact(problem: Problem) -> tuple[Arrays, Arrays]:
    return problem.exact_results(), problem.exact_results(np.float32)


def judgement(problem: Problem) -> tuple[Arrays, Arrays]:
    """What `Problem.results` has to be, and what plain arithmetic makes of it."""
    same = replace(problem, recompute=False, threads=None, want=ALL, accumulate=False)
    exact, rough = _exact(same)
    return problem.wanted(exact), problem.wanted(rough)
