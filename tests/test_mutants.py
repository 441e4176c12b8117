"""Rows are right, and no row could be wrong unseen: every row is judged by its framework, and so is every mutant of it.

A mutant has two letters exchanged: two gates, two axes of one array, or two gates of one array's own order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import rnnbridge as rb
from rnnbridge.catalogue import catalogue
from rnnbridge.convention import Convention
from rnnbridge.proof.tolerance import Expectation, expectation
from tests.row_judges import JUDGES, Answer, Task
from tests.samples import inputs_of, spec_of

ROWS = catalogue().rows


@dataclass(frozen=True)
class Witness:
    """A layer in the framework's own layout, and what the framework itself answered."""

    task: Task
    answer: Answer


def ask(row: Convention, lengths: Sequence[int] | None = None, **changes: Any) -> Witness:
    """Random arrays in the shapes that the row gives a layer, and the framework's answer."""
    base = {"lstm": "lstm", "gru": "gru_after", "rnn": "rnn_tanh"}[row.cell]
    reset = {"reset": row.reset[0]} if row.reset else {}
    spec = spec_of(base, bias=row.bias_forms[-1], **{**reset, **changes})
    rng = np.random.default_rng(len(row.name))
    empty = row.write({name: np.zeros(shape, np.float32) for name, shape in spec.weight_shapes().items()}, spec)
    arrays = {name: rng.uniform(-1, 1, array.shape).astype(np.float32) for name, array in empty.items()}
    given = inputs_of(spec, 3)
    states = [{"h": given.h0, "c": given.c0}[state] for state in row.state_order.split()]
    task = Task(row, spec, arrays, given.x, states, None if lengths is None else np.array(lengths))
    judge = JUDGES[row.framework]
    task = task if judge.recorded is None else judge.recorded(task)
    return Witness(task, judge.run(task))


def wanted(row: Convention, seen: Witness) -> Expectation:
    """What the reference gives for the arrays as a row reads them."""
    task, states = seen.task, dict(zip(seen.task.row.state_order.split(), seen.task.states, strict=True))
    canonical = row.read(task.arrays, task.spec)
    return expectation(task.spec, canonical, task.x, states["h"], states.get("c"), task.lengths)


def agrees(row: Convention, seen: Witness) -> bool:
    """Whether a row reads the framework's arrays so that the framework's own numbers come out, and writes them back."""
    arrays, spec = seen.task.arrays, seen.task.spec
    try:
        back = row.write(row.read(arrays, spec), spec)
        exact, allowed = wanted(row, seen)
    except rb.LayoutError:
        return False
    same = all(np.array_equal(back[name], array) for name, array in arrays.items())
    return same and bool(np.abs(exact["y"] - seen.answer.y).max() <= allowed["y"])


def exchanged(text: str) -> Iterator[str]:
    """Every text with two different letters of the alphabet in it exchanged."""
    for first, second in combinations(sorted({letter for letter in text if letter.isalpha()}), 2):
        yield text.translate(str.maketrans(first + second, second + first))


def mutants(row: Convention) -> Iterator[tuple[str, Callable[[], Convention]]]:
    """(what was exchanged, how to make the mutant) for a row's gates and for every slot's axes and own gates."""
    for gates in exchanged(row.gates):
        yield f"gates {gates}", lambda gates=gates: replace(row, gates=gates)
    for index, slot in enumerate(row.slots):
        left, as_, block = slot.axes.partition(" as ")
        axes = [text + as_ + block for text in exchanged(left)] + [left + as_ + text for text in exchanged(block)]
        by_gates = [replace(slot, gates=one) for one in exchanged(slot.gates)]
        for mutant in [replace(slot, axes=one) for one in axes] + by_gates:
            slots = (*row.slots[:index], mutant, *row.slots[index + 1 :])
            yield f"{slot.name}: {mutant.axes} {mutant.gates}", lambda slots=slots: replace(row, slots=slots)


def slot_swaps(row: Convention) -> Iterator[tuple[str, Callable[[], Convention]]]:
    """Two one-gate arrays of the same tensor with their gates exchanged, as Keras 1 could be misread."""
    for (i, first), (j, second) in combinations(enumerate(row.slots), 2):
        if first.holds == second.holds and first.gates != second.gates:
            slots = list(row.slots)
            slots[i], slots[j] = replace(first, gates=second.gates), replace(second, gates=first.gates)
            yield f"{first.name} <-> {second.name}", lambda slots=tuple(slots): replace(row, slots=slots)


@cache
def witness_of(name: str) -> Witness:
    return ask(ROWS[name], **JUDGES[ROWS[name].framework].most(ROWS[name]))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_gives_its_frameworks_numbers(name: str) -> None:
    assert agrees(ROWS[name], witness_of(name))


@pytest.mark.parametrize("name", ROWS)
def test_no_mutant_of_a_row_gives_them(name: str) -> None:
    seen = witness_of(name)
    tried = 0
    for what, make in [*mutants(ROWS[name]), *slot_swaps(ROWS[name])]:
        try:
            mutant = make()
        except rb.LayoutError:
            continue  # a row that does not construct is seen at once
        tried += 1
        assert not agrees(mutant, seen), f"{name} with {what} passes unseen"
    assert tried >= (1 if ROWS[name].cell == "rnn" else 2)  # one gate in one kernel has two axes to exchange


@pytest.mark.parametrize("name", ROWS)
def test_states_are_in_the_rows_order(name: str) -> None:
    row, seen = ROWS[name], witness_of(name)
    exact, allowed = wanted(row, seen)
    for state, array in zip(row.state_order.split(), seen.answer.states, strict=True):
        assert np.abs(exact[state] - array).max() <= allowed[state]


WITH_LENGTHS = [name for name, row in ROWS.items() if row.batch_first is not None]  # a cell takes one step


@pytest.mark.parametrize("name", WITH_LENGTHS)
def test_past_a_length_y_is_what_the_row_says(name: str) -> None:
    row, (whole, short, one) = ROWS[name], (7, 3, 1)
    y = ask(row, [whole, short, one]).answer.y
    for index, length in ((1, short), (2, one)):
        past = {"zero": np.zeros_like(y[0, index]), "repeat": y[length - 1, index]}[row.padding]
        assert y[length - 1, index].all()
        assert (y[length:, index] == past).all()


@pytest.mark.parametrize("name", WITH_LENGTHS)
def test_an_empty_sequence_ends_as_the_row_says(name: str) -> None:
    row, lengths = ROWS[name], [7, 0, 3]
    if row.zero_length == "refused":
        with pytest.raises(RuntimeError, match="greater than 0"):
            ask(row, lengths)
        return
    seen = ask(row, lengths)
    for given, final in zip(seen.task.states, seen.answer.states, strict=True):
        assert (final[:, 1] == {"initial": given, "zero": 0 * given}[row.zero_length][:, 1]).all()


def test_every_framework_has_a_judge_here() -> None:
    missing = {row.framework for row in ROWS.values()} - JUDGES.keys()
    assert not missing, f"tests/row_judges.py needs one that runs a layer of {missing}"
