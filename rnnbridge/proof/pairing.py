"""Which layer of one file answers to which of another. Knows specs and names, no numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle, RNNWeights, describe, stack, stacking_obstacles

# Two layers may differ in these and give the same numbers: a bias is split or merged, a coupled gate written out.
_IMMATERIAL = ("bias", "coupled")


@dataclass(frozen=True)
class Run:
    """One entry of a file, or several that follow each other, as one stack."""

    names: tuple[str, ...]
    weights: RNNWeights

    def __str__(self) -> str:
        return " + ".join(self.names)


@dataclass(frozen=True)
class Pair:
    """Two runs that should give the same numbers, and how they were matched."""

    source: Run
    target: Run
    matched: str


@dataclass(frozen=True)
class Pairing:
    """The pairs, and the layers of either side that found no partner."""

    pairs: tuple[Pair, ...]
    left_of_source: tuple[str, ...]
    left_of_target: tuple[str, ...]


def differences(one: RNNSpec, other: RNNSpec) -> list[str]:
    """The fields in which two specs differ so that the numbers must; empty if they may give the same numbers."""
    if one.cell != other.cell:
        return [f"cell is {one.cell!r} and {other.cell!r}"]
    have, wanted = _essence(one), _essence(other)
    return [f"{key} is {have[key]!r} and {wanted[key]!r}" for key in have if have[key] != wanted[key]]


def by_order(source: Bundle, target: Bundle) -> Pairing:
    """Pair layers in order by equal spec; one entry with k layers pairs with k layers that stack to it.

    Raises:
        Incompatible: nothing pairs; `reasons` compares the layers that stand at the same place.
    """
    pairs: list[Pair] = []
    names, others = list(source.layers), list(target.layers)
    first = start = 0
    while first < len(names):
        found = _match(source, names[first:], target, others[start:])
        if found is None:
            first += 1
            continue
        pairs.append(found)
        first += len(found.source.names)
        start = others.index(found.target.names[-1]) + 1
    if not pairs:
        reasons = [_mismatch(a, source[a], b, target[b]) for a, b in zip(names, others, strict=False)]
        raise Incompatible("no layer of one file answers to a layer of the other", reasons)
    return _pairing(pairs, source, target)


def by_names(
    source: Bundle, target: Bundle, names: Iterable[tuple[tuple[str, ...], tuple[str, ...]]], matched: str
) -> Pairing:
    """Pair layers by their names; several names on one side are stacked.

    Raises:
        ArgumentError: a name that is not there.
        Incompatible: layers that do not stack, or a pair that cannot give the same numbers.
    """
    pairs = [Pair(_stacked(source, ours), _stacked(target, theirs), matched) for ours, theirs in names]
    reasons = [
        _mismatch(str(pair.source), pair.source.weights, str(pair.target), pair.target.weights)
        for pair in pairs
        if differences(pair.source.weights.spec, pair.target.weights.spec)
    ]
    if reasons:
        raise Incompatible("these layers cannot give the same numbers", reasons)
    return _pairing(pairs, source, target)


def names_of(map_: Mapping[str, str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """A user's map {"a": "b"}, {"a": "b1+b2"} as names; a "+" joins layers that form a stack.

    Raises:
        ArgumentError: an empty name or map, or no map at all.
    """
    pairs = list(map_.items()) if isinstance(map_, Mapping) else []
    if not pairs or not all(isinstance(name, str) and all(name.split("+")) for pair in pairs for name in pair):
        raise ArgumentError(f"map is {map_!r}; it is {{'layer': 'layer'}}, or {{'layer': 'layer1+layer2'}} for a stack")
    return [(tuple(ours.split("+")), tuple(theirs.split("+"))) for ours, theirs in pairs]


def _essence(spec: RNNSpec) -> dict[str, Any]:
    plain = {key: value for key, value in spec.to_dict().items() if key not in _IMMATERIAL}
    # Two hard sigmoids of one offset are rescaled into each other: whether they were, the numbers say.
    plain["activations"] = [
        f"hard_sigmoid(any, {one.beta})" if one.name == "hard_sigmoid" else str(one) for one in spec.activations
    ]
    return plain


def _match(source: Bundle, names: list[str], target: Bundle, others: list[str]) -> Pair | None:
    """The first run of `others` that answers to a run at the head of `names`."""
    for start in range(len(others)):
        for ours in _runs(source, names):
            for theirs in _runs(target, others[start:]):
                same = not differences(ours.weights.spec, theirs.weights.spec)
                if same and 1 in (len(ours.names), len(theirs.names)):
                    stacked = len(ours.names) + len(theirs.names) > 2
                    return Pair(ours, theirs, "by order, as a stack" if stacked else "by order and equal spec")
    return None


def _runs(bundle: Bundle, names: list[str]) -> Iterator[Run]:
    """The first entry, the first two as a stack, the first three ... as far as they stack."""
    for count in range(1, len(names) + 1):
        if count > 1 and stacking_obstacles(bundle[names[count - 2]], bundle[names[count - 1]]):
            return
        yield _stacked(bundle, tuple(names[:count]))


def _stacked(bundle: Bundle, names: tuple[str, ...]) -> Run:
    parts = [bundle[name] for name in names]
    return Run(names, parts[0] if len(parts) == 1 else stack(parts))


def _mismatch(name: str, weights: RNNWeights, other_name: str, other: RNNWeights) -> str:
    found = "; ".join(differences(weights.spec, other.spec)) or "they are out of order"
    return f"{name} ({describe(weights.spec)}) and {other_name} ({describe(other.spec)}): {found}"


def _pairing(pairs: list[Pair], source: Bundle, target: Bundle) -> Pairing:
    ours = {name for pair in pairs for name in pair.source.names}
    theirs = {name for pair in pairs for name in pair.target.names}
    return Pairing(
        tuple(pairs),
        tuple(name for name in source.layers if name not in ours),
        tuple(name for name in target.layers if name not in theirs),
    )
