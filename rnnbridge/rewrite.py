"""Exact rewrites of a layer, and the planner that finds those leading from a layer to what a row can hold.

Each rewrite is exact in real arithmetic, done in float64 and rounded once. Where none leads there the planner raises
`Incompatible` with every reason at once. Knows no framework by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.convention import Convention
from rnnbridge.errors import Incompatible
from rnnbridge.gates import change_gates, scale_gates, split_gates
from rnnbridge.spec import ACTIVATION_SLOTS, RNNSpec
from rnnbridge.weights import RNNWeights

Arrays = dict[str, NDArray[Any]]
Outcome = Iterator["Step | str"]


@dataclass(frozen=True)
class Step:
    """One rewrite on the way.

    Args:
        name: as in the documentation's table, e.g. "merge biases".
        detail: what it does here.
        same_bits: whether undoing it gives the same bits back.
        training: what it means for further training, "" if nothing.
        spec: the layer's description afterwards.
        change: what it does to the canonical arrays (float64 in, float64 out).
    """

    name: str
    detail: str
    same_bits: bool
    training: str
    spec: RNNSpec
    change: Callable[[Arrays], Arrays]

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


@dataclass(frozen=True)
class Plan:
    """The steps from a layer to a row that can hold it."""

    row: Convention
    steps: tuple[Step, ...]
    spec: RNNSpec

    @property
    def same_bits(self) -> bool:
        """Whether the way back gives the same bits."""
        return all(step.same_bits for step in self.steps)

    def apply(self, weights: RNNWeights) -> RNNWeights:
        """The rewritten layer: steps in float64, rounded once to the layer's dtype."""
        arrays: Arrays = {name: array.astype(np.float64) for name, array in weights.arrays.items()}
        for step in self.steps:
            arrays = step.change(arrays)
        storage = weights.origin.storage_dtype if self.same_bits else ""
        return RNNWeights(
            self.spec,
            {name: array.astype(weights.dtype) for name, array in arrays.items()},
            replace(weights.origin, storage_dtype=storage),
        )


def plan(weights: RNNWeights, rows: Iterable[Convention]) -> Plan:
    """Find the row, and the fewest rewrites, that hold a layer.

    Args:
        weights: the layer. Its numbers matter: a recurrent bias of zeros can be dropped, another cannot.
        rows: the target's rows; those of other cells are passed over.

    Raises:
        Incompatible: no row holds it; `reasons` has every reason of the row that comes nearest.
    """
    rows = list(rows)
    attempts = [_attempt(weights, row) for row in rows if row.cell == weights.spec.cell]
    if not attempts:
        framework = rows[0].framework if rows else "the target"
        raise Incompatible(f"{framework} cannot hold this layer", [f"it has no {weights.spec.cell.upper()}"])
    if possible := [attempt for attempt, reasons in attempts if not reasons]:
        return min(possible, key=lambda found: (not found.same_bits, len(found.steps)))
    nearest, reasons = min(attempts, key=lambda pair: len(pair[1]))
    raise Incompatible(f"{nearest.row.framework} cannot hold this layer", reasons)


def _attempt(weights: RNNWeights, row: Convention) -> tuple[Plan, list[str]]:
    spec, steps, reasons = weights.spec, [], []
    for rule in _RULES:
        for outcome in rule(spec, weights, row):
            if isinstance(outcome, str):
                reasons.append(outcome)
            else:
                steps.append(outcome)
                spec = outcome.spec
    return Plan(row, tuple(steps), spec), reasons


def _reset(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    if spec.reset is not None and spec.reset not in row.reset:
        yield (
            f"this GRU applies the reset gate {spec.reset} the recurrent product, {row.name} {row.reset[0]} it: two "
            "different functions, and no weights turn one into the other. Run it on the engine (rb.layer), or choose a "
            f"target that holds reset={spec.reset!r}: ONNX and Keras hold both"
        )


def _extras(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    words = {
        "proj_size": f"a projection to {spec.proj_size}",
        "peephole": "peepholes",
        "clip": f"pre-activations clipped to +-{spec.clip}",
        "cell_clip": f"a cell state clipped to +-{spec.cell_clip}",
        "proj_clip": f"a projected state clipped to +-{spec.proj_clip}",
    }
    narrower = "proj_size<hidden_size" in row.extras
    if narrower and spec.proj_size >= spec.hidden_size:
        sizes = f"proj_size={spec.proj_size} and hidden_size={spec.hidden_size}"
        yield f"{row.name} wants a projection below the hidden size; this layer has {sizes}"
    for name, what in words.items():
        if getattr(spec, name) and name not in row.extras and not (name == "proj_size" and narrower):
            yield f"this layer has {what}, which {row.name} lacks"


def _coupled(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    if spec.coupled is None or {"coupled", spec.coupled} & set(row.extras):
        return
    off, on = spec.coupled[0], spec.coupled[-1]
    if not spec.activations[0].is_complementary:
        gate = spec.activations[0]
        yield f"{row.name} has no coupled gates ({spec.coupled}), and 1 - {gate}(a) is not {gate}(-a)"
        return
    yield Step(
        "uncouple",
        f"gate {off} gets the negated rows of gate {on}",
        False,
        "the two gates are then trained independently",
        spec.replace(coupled=None),
        _gatewise({off: lambda gates: -gates[on]}, spec.cell),
    )


def _activations(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    wanted = list(spec.activations)
    for slot, (have, allowed) in enumerate(zip(spec.activations, row.activations, strict=True)):
        if have.name in allowed or str(have) in allowed:
            continue
        target = _rescaled_twin(have, allowed)
        gates = ACTIVATION_SLOTS[spec.cell][slot]
        if target is None or not gates or spec.clip is not None:
            what = f"gates {' '.join(gates)}" if gates else "the output"
            yield f"{row.name} cannot have the activation {have} for {what}; it can have {', '.join(allowed)}"
            continue
        wanted[slot] = target
        factor = float(have.alpha or 1) / float(target.alpha or 1)
        spec = spec.replace(activations=tuple(wanted))
        yield Step(
            "rescale hard sigmoid",
            f"rows of gates {' '.join(gates)} times {factor:.9g}: {have} becomes {target}",
            False,
            "these rows have another scale, so an optimiser such as Adam follows another trajectory",
            spec,
            _scaling(dict.fromkeys(gates, factor), spec.cell),
        )
    if spec.cell == "lstm" and row.one_activation and spec.activations[1] != spec.activations[2]:
        _, candidate, output = spec.activations
        yield f"{row.name} has one activation for candidate and output; this layer has {candidate} and {output}"


def _bias(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    if spec.bias in row.bias_forms:
        return
    suffixes = [suffix for _, _, suffix in spec.positions()]
    if spec.bias == "double" and "single" in row.bias_forms:
        yield from _one_bias(spec, weights, row, suffixes)
    elif "double" in row.bias_forms or (spec.bias == "none" and "single" in row.bias_forms):
        target = "double" if "double" in row.bias_forms else "single"
        missing = [name for name in ("bias_ih", "bias_hh") if target == "double" or name == "bias_ih"]
        new = [name for name in missing if spec.bias == "none" or name == "bias_hh"]
        shape = (len(spec.gates) * spec.hidden_size,)
        name = "split bias" if spec.bias == "single" else "zero bias"
        yield Step(
            name,
            f"{' and '.join(new)} {'is' if len(new) == 1 else 'are'} zero",
            True,
            "two biases move their sum twice as fast as one" if target == "double" else "the bias can be trained",
            spec.replace(bias=target),
            lambda arrays: arrays | {name + suffix: np.zeros(shape) for suffix in suffixes for name in new},
        )
    else:
        yield f"{row.name} has no bias and this layer has"


def _one_bias(spec: RNNSpec, weights: RNNWeights, row: Convention, suffixes: list[str]) -> Outcome:
    zero = all(not weights.arrays[f"bias_hh{suffix}"].any() for suffix in suffixes)
    if spec.reset == "after" and not zero:
        yield f"{row.name} has one bias; a reset-after GRU needs two, since b_hn sits inside r * (U h + b_hn)"
        return
    name, detail = ("drop zero bias", "bias_hh is zero") if zero else ("merge biases", "bias_ih + bias_hh")
    yield Step(
        name,
        detail,
        zero,
        "one bias moves half as fast as the sum of two",
        spec.replace(bias="single"),
        lambda arrays: _without_bias_hh(arrays, suffixes),
    )


def _partial_bias(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    """Of a row whose recurrent bias has some gates only: those of the others are added to the input side."""
    gates = row.without_bias_hh if spec.bias == "double" else ""
    names = [f"bias_hh{suffix}" for _, _, suffix in spec.positions() if f"bias_hh{suffix}" in weights.arrays]
    if any(split_gates(weights.arrays[name], name, spec.cell)[gate].any() for name in names for gate in gates):
        yield Step(
            "merge biases",
            f"bias_ih + bias_hh of gates {' '.join(gates)}",
            False,
            "one bias moves half as fast as the sum of two",
            spec,
            lambda arrays: arrays | _merged_in_part(arrays, names, spec.cell, gates),
        )


def _directions(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    if spec.direction not in row.directions:
        yield f"{row.name} runs {' or '.join(row.directions)}; this layer runs {spec.direction}"
    if spec.merge not in row.merges:
        yield f"{row.name} joins two directions by {' or '.join(row.merges)}; this layer by {spec.merge}"
    elif spec.merge in row.added:
        yield _note(spec, "merge directions", f"{spec.merge} by an added {row.added[spec.merge]}")
    if spec.direction == "reverse" and spec.output_order not in row.output_orders:
        orders = " or ".join(row.output_orders)
        yield f"{row.name} gives a reverse layer's output in {orders} order; this layer in {spec.output_order} order"
    elif spec.output_order in row.added:
        yield _note(spec, "reverse output", f"{spec.output_order} order by an added {row.added[spec.output_order]}")
    if spec.num_layers > 1 and not row.many_layers:
        yield _note(spec, "split stack", f"{spec.num_layers} layers, each on its own")


def _of_the_row(spec: RNNSpec, weights: RNNWeights, row: Convention) -> Outcome:
    """What writing does to the numbers in a row of its own: see `Convention.write`."""
    if "flip update gate" in row.rewrites:
        yield _note(spec, "flip update gate", "z rows negated, since z takes there")
    if "fold forget bias" in row.rewrites:
        detail = f"{row.forget_bias:g} taken off bias_ih, since it is added at run time there"
        yield replace(_note(spec, "fold forget bias", detail), same_bits=False)


_RULES = (_reset, _extras, _coupled, _activations, _bias, _partial_bias, _directions, _of_the_row)


def _note(spec: RNNSpec, name: str, detail: str) -> Step:
    return Step(name, detail, True, "", spec, lambda arrays: arrays)


def _rescaled_twin(have: Activation, allowed: tuple[str, ...]) -> Activation | None:
    if have.name != "hard_sigmoid":
        return None
    spelled = [Activation.parse(text) for text in allowed if text.startswith("hard_sigmoid(")]
    return next((twin for twin in spelled if twin.beta == have.beta), None)


def _without_bias_hh(arrays: Arrays, suffixes: list[str]) -> Arrays:
    merged = {f"bias_ih{suffix}": arrays[f"bias_ih{suffix}"] + arrays[f"bias_hh{suffix}"] for suffix in suffixes}
    return {name: array for name, array in (arrays | merged).items() if not name.startswith("bias_hh")}


def _merged_in_part(arrays: Arrays, names: list[str], cell: str, gates: str) -> Arrays:
    changed: Arrays = {}
    for name in names:
        inner, zero = name.replace("bias_hh", "bias_ih"), dict.fromkeys(gates, 0.0)
        moved = arrays[name] - scale_gates(arrays[name], name, cell, zero)
        changed |= {inner: arrays[inner] + moved, name: scale_gates(arrays[name], name, cell, zero)}
    return changed


def _gatewise(changes: dict[str, Callable[[Arrays], NDArray[Any]]], cell: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {name: change_gates(array, name, cell, changes) for name, array in arrays.items()}


def _scaling(factors: dict[str, float], cell: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {name: scale_gates(array, name, cell, factors) for name, array in arrays.items()}
