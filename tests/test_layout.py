"""The layout algebra as laws, on arrays whose every element is a different number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnbridge.errors import LayoutError
from rnnbridge.layout import CANONICAL_ORDER, Axes, join, part

PRIMES = {"l": 2, "d": 3, "b": 5, "g": 7, "p": 13, "o": 11, "i": 17}
FIELD = (
    "(g o) i",
    "i (g o)",
    "d (g o) i",
    "l d i g o",
    "(o g) i",
    "b (g o)",
    "(b g o)",
    "i (g o) as o i",
    "p o",
    "o p",
)


def tagged(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


@st.composite
def axis_strings(draw: st.DrawFn) -> str:
    letters = draw(st.permutations(CANONICAL_ORDER).map(lambda order: order[: draw(st.integers(2, 5))]))
    cuts = draw(st.lists(st.booleans(), min_size=len(letters), max_size=len(letters)))
    groups: list[list[str]] = [[]]
    for letter, cut in zip(letters, cuts, strict=True):
        if cut and groups[-1]:
            groups.append([])
        groups[-1].append(letter)
    left = " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)
    block = draw(st.lists(st.sampled_from(sorted(letters)), unique=True, max_size=len(letters)))
    return f"{left} as {' '.join(block)}" if block else left


@given(axis_strings())
@settings(max_examples=300, deadline=None)
def test_write_undoes_read_and_read_undoes_write(pattern: str) -> None:
    axes = Axes(pattern)
    array = tagged(axes.shape(PRIMES))
    apart = axes.read(array, PRIMES)
    assert apart.shape == tuple(PRIMES[letter] for letter in axes.letters)
    assert np.array_equal(axes.write(apart, PRIMES), array)
    tensor = tagged(apart.shape)
    assert np.array_equal(axes.read(axes.write(tensor, PRIMES), PRIMES), tensor)


@given(axis_strings())
@settings(max_examples=100, deadline=None)
def test_solve_finds_the_size_that_made_a_shape(pattern: str) -> None:
    axes = Axes(pattern)
    for missing in axes.letters:
        known = {letter: PRIMES[letter] for letter in axes.letters if letter != missing}
        assert axes.solve(axes.shape(PRIMES), known)[missing] == PRIMES[missing]


@pytest.mark.parametrize("pattern", FIELD)
def test_each_element_lands_where_its_letters_say(pattern: str) -> None:
    """An independent definition: the flat position in the array, computed from the letters' indices."""
    axes = Axes(pattern)
    array = tagged(axes.shape(PRIMES))
    apart = axes.read(array, PRIMES)
    written = pattern.split(" as ")[0].replace("(", "").replace(")", "").split()
    block = pattern.partition(" as ")[2].split()
    for index in np.ndindex(*apart.shape):
        at = dict(zip(axes.letters, index, strict=True))
        if block:
            flat = 0
            for letter in block:
                flat = flat * PRIMES[letter] + at[letter]
            for letter in reversed([letter for letter in written if letter in block]):
                flat, at[letter] = divmod(flat, PRIMES[letter])
        position = 0
        for letter in written:
            position = position * PRIMES[letter] + at[letter]
        assert apart[index] == position


def test_pytorch_and_keras_kernels_are_transposes_but_cudnn_in_keras_is_not() -> None:
    sizes = {"g": 4, "o": 3, "i": 5}
    canonical = tagged((4, 3, 5))
    torch_kernel = Axes("(g o) i").write(canonical, sizes)
    assert np.array_equal(Axes("i (g o)").write(canonical, sizes), torch_kernel.T)
    cudnn = Axes("i (g o) as o i").write(canonical, sizes)
    assert cudnn.shape == torch_kernel.T.shape
    assert not np.array_equal(cudnn, torch_kernel.T)
    for gate in range(4):
        assert np.array_equal(cudnn[:, gate * 3 : gate * 3 + 3].reshape(3, 5), canonical[gate])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 1))
def test_part_undoes_join(lengths: list[int], axis: int) -> None:
    shapes = [(n, 3) if axis == 0 else (3, n) for n in lengths]
    parts = [tagged(shape) + 100 * k for k, shape in enumerate(shapes)]
    for had, got in zip(parts, part(join(parts, axis), lengths, axis), strict=True):
        assert np.array_equal(had, got)


@pytest.mark.parametrize("pattern", ["", "(g o", "g g", "q i", "(g o) i as p", "i (g o) as (o i)", "G o", "(g(o)) i"])
def test_a_string_that_is_no_layout_is_refused(pattern: str) -> None:
    with pytest.raises(LayoutError, match="axis string"):
        Axes(pattern)


def test_a_wrong_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(LayoutError, match=r"\[12, 6\].*\[12, 5\]"):
        Axes("(g o) i").read(tagged((12, 6)), {"g": 4, "o": 3, "i": 5})
    with pytest.raises(LayoutError, match="does not fit"):
        Axes("(g o) i").solve((13, 5), {"g": 4})
    with pytest.raises(LayoutError, match="3 axes"):
        Axes("(g o) i").solve((3, 4, 5), {"g": 4})
    with pytest.raises(LayoutError, match="do not add up"):
        part(tagged((4, 3)), [1, 2], 0)
