"""`verify`: whether two files hold the same numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rnnbridge.bundle import load
from rnnbridge.proof.comparison import Side, compare
from rnnbridge.proof.pairing import Pair, Pairing, by_names, by_order, names_of
from rnnbridge.proof.reading import on_reading
from rnnbridge.proof.report import AppliedRewrite, ProvenLayer, Report
from rnnbridge.weights import describe


def verify(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    map: Mapping[str, str] | None = None,  # noqa: A002 (the public name)
    settings_a: Mapping[str, str] | None = None,
    settings_b: Mapping[str, str] | None = None,
    seed: int = 0,
    time_limit: float = 120,
) -> Report:
    """Run two files on the same inputs, everywhere they can be run, and compare.

    Both are run on the engine (in the float64 reference where the compiled library is missing or cannot run a layer)
    and in every installed framework that can run such a file, each in a process of its own. Inputs are seeded, with
    non-zero states, with and without lengths; every valid step of every output is compared with the float64 reference
    of the first file. The tolerance is computed from the layer and the input: see `proof.tolerance.expectation`.

    Args:
        a, b: the files.
        map: {"layer of a": "layer of b"}, with "+" between layers that form a stack; None pairs layers by order and
            equal spec.
        settings_a, settings_b: what a file does not say, as `load` takes it.
        seed: of the inputs.
        time_limit: seconds that one framework may take for one file, start-up included.

    Returns:
        A report; its truth value is whether the numbers are the same.

    Raises:
        Incompatible: no layer of one file answers to one of the other.
        FormatError, FileAccessError, ArgumentError: as `load` says.
    """
    source = Side("source", load(a, settings=settings_a), dict(settings_a or {}))
    target = Side("target", load(b, settings=settings_b), dict(settings_b or {}))
    if map is None:
        pairing = by_order(source.bundle, target.bundle)
    else:
        pairing = by_names(source.bundle, target.bundle, names_of(map), "by map")
    found = compare(source, target, pairing.pairs, seed, time_limit)
    left, unpaired = _without_partner(pairing, mapped=map is not None)
    return Report(
        source=str(Path(a)),
        target=str(Path(b)),
        seed=seed,
        layers=tuple(_proven(pair) for pair in pairing.pairs),
        measurements=tuple(found.measurements),
        rewrites=_on_reading(pairing),
        judges=tuple(found.judges),
        notices=(*left, *source.bundle.notices, *target.bundle.notices, *found.notices),
        unpaired=unpaired,
    )


def _proven(pair: Pair) -> ProvenLayer:
    return ProvenLayer(str(pair.source), str(pair.target), pair.matched, describe(pair.source.weights.spec))


def _without_partner(pairing: Pairing, *, mapped: bool) -> tuple[list[str], tuple[str, ...]]:
    """Layers without a partner: a notice where the user chose the pairs, else a difference."""
    left = {"source": pairing.left_of_source, "target": pairing.left_of_target}
    told = [f"{name} of the {file}" for file, names in left.items() for name in names]
    return ([f"not compared: {one}" for one in told], ()) if mapped else ([], tuple(told))


def _on_reading(pairing: Pairing) -> tuple[AppliedRewrite, ...]:
    return tuple(
        rewrite
        for pair in pairing.pairs
        for file, run in (("source", pair.source), ("target", pair.target))
        for rewrite in on_reading(str(run), run.weights, file)
    )
