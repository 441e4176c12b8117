"""The comparison itself: every runner of two files against the float64 reference of the source, on the same inputs.

Knows pairs, runners and numbers; what was written, and where to, is no business of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from rnnbridge.proof import judges, own
from rnnbridge.proof.numbers import compare_weights
from rnnbridge.proof.pairing import Pair, Run
from rnnbridge.proof.report import Measurement
from rnnbridge.proof.samples import SHORTER, Sample, samples_for
from rnnbridge.proof.tolerance import Outputs, expectation, for_dtype, is_sharp, max_abs_error
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle

_AT_ONCE = 2  # a framework's start-up is mostly waiting, its memory is not small


@dataclass(frozen=True)
class Side:
    """One of the two files, and what was set to read it."""

    file: str  # "source" or "target"
    bundle: Bundle
    settings: Mapping[str, str]


@dataclass
class Findings:
    """What the comparison found; the fields are those of `Report`."""

    measurements: list[Measurement] = field(default_factory=list)
    judges: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Truth:
    """What one pair of layers should give: samples, exact outputs of each, and float32 tolerances."""

    pair: Pair
    samples: list[Sample]
    exact: list[Outputs]
    tolerances: dict[str, float]
    steps: int
    sharp: bool


def compare(source: Side, target: Side, pairs: tuple[Pair, ...], seed: int, time_limit: float) -> Findings:
    """Run both files everywhere and measure.

    Args:
        seed: of the inputs.
        time_limit: seconds that one judge may take for one file.
    """
    truths = [_truth(pair, seed) for pair in pairs]
    findings = Findings()
    for truth in truths:
        findings.notices += _blunt(truth)
        for file, run in (("source", truth.pair.source), ("target", truth.pair.target)):
            _run_own(findings, truth, file, run)
        _compare_weights(findings, truth.pair)
    _run_judges(findings, truths, (source, target), time_limit)
    findings.measurements.sort(key=lambda one: [str(pair.source) for pair in pairs].index(one.layer))
    findings.judges = list(dict.fromkeys(findings.judges))
    findings.notices = list(dict.fromkeys(findings.notices))
    return findings


def _truth(pair: Pair, seed: int) -> _Truth:
    """Samples of as many steps as leave the tolerances sharp."""
    truths = (_truth_over(pair, seed, steps) for steps in SHORTER)
    return next(truth for truth in truths if truth.sharp or truth.steps == SHORTER[-1])


def _truth_over(pair: Pair, seed: int, steps: int) -> _Truth:
    weights = pair.source.weights
    samples = samples_for(weights.spec, seed, steps)
    wanted = [expectation(weights.spec, weights.arrays, one.x, one.h0, one.c0, one.lengths) for one in samples]
    tolerances = {name: max(one.tolerance[name] for one in wanted) for name in wanted[0].outputs}
    sharp = all(
        is_sharp(allowed, np.concatenate([one.outputs[name].ravel() for one in wanted]))
        for name, allowed in tolerances.items()
    )
    return _Truth(pair, samples, [one.outputs for one in wanted], tolerances, steps, sharp)


def _blunt(truth: _Truth) -> Iterator[str]:
    """What to say of a layer that could not be compared over all steps."""
    if truth.steps != SHORTER[0]:
        yield f"{truth.pair.source}: it amplifies rounding errors so strongly that {truth.steps} step(s) were compared"
    if not truth.sharp:
        yield f"{truth.pair.source}: even so, the errors allowed are not small beside its outputs"


def _run_own(findings: Findings, truth: _Truth, file: str, run: Run) -> None:
    done = own.run(str(run), run.weights, truth.samples)
    if done.instead:
        findings.notices.append(done.instead)
    findings.measurements += _measure(truth, file, done.runner, dict(enumerate(done.outputs)))


def _compare_weights(findings: Findings, pair: Pair) -> None:
    found = compare_weights(str(pair.source), pair.source.weights, pair.target.weights)
    if found is None:
        findings.notices.append(f"{pair.source}: its weights have other arrays in the two files, so they were only run")
    else:
        findings.measurements.append(found)


def _run_judges(findings: Findings, truths: list[_Truth], sides: tuple[Side, Side], time_limit: float) -> None:
    trials = [(side, trial) for side in sides for trial in _trials(side, truths)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        verdicts = list(pool.map(lambda pair: judges.run(pair[1], time_limit), trials))
    judged: set[str] = set()
    for (side, trial), verdict in zip(trials, verdicts, strict=True):
        who = f"{trial.judge.name} {verdict.version}".strip()
        if verdict.outputs:
            findings.judges.append(who)
            judged.add(side.file)
        findings.notices += [f"{who} does not run the {side.file}'s {reason}" for reason in verdict.refused]
        if verdict.failure:
            findings.notices.append(f"{who} could not run the {side.file}: {verdict.failure}")
        for number, truth in enumerate(truths):
            outputs = {index: got for (chain, index), got in verdict.outputs.items() if chain == number}
            findings.measurements += _measure(truth, side.file, who, outputs)
    findings.notices += [_alone(side) for side in sides if side.file not in judged]


def _trials(side: Side, truths: list[_Truth]) -> Iterator[judges.Trial]:
    if side.bundle.path is None:
        return
    chains = [
        judges.Chain((truth.pair.source if side.file == "source" else truth.pair.target).names, truth.samples)
        for truth in truths
    ]
    for judge in judges.judges_of(side.bundle.format)[0]:
        yield judges.Trial(judge, side.bundle.path, side.bundle.format, side.settings, chains)


def _alone(side: Side) -> str:
    missing = " or ".join(dict.fromkeys(judge.name for judge in judges.judges_of(side.bundle.format)[1]))
    cure = f"; install {missing} to have {missing} judge it" if missing else ""
    return f"the {side.file}: read and run by rnnbridge alone{cure}"


def _measure(truth: _Truth, file: str, runner: str, outputs: Mapping[int, Outputs]) -> Iterator[Measurement]:
    """The largest error of each output over the samples that were run, valid steps only."""
    spec = truth.pair.source.weights.spec
    for name in truth.tolerances if outputs else ():
        error = max(_error(spec, truth, name, index, got) for index, got in outputs.items())
        dtypes = [got[name].dtype for got in outputs.values() if name in got]
        yield Measurement(str(truth.pair.source), name, file, runner, error, _tolerance(truth, name, dtypes))


def _error(spec: RNNSpec, truth: _Truth, name: str, index: int, got: Outputs) -> float:
    if name not in got:
        return float("inf")
    array, exact = got[name], truth.exact[index][name]
    if name == "y" and array.shape == exact.shape:
        valid = truth.samples[index].valid_steps(spec)
        array, exact = array[valid], exact[valid]
    return max_abs_error(array, exact)


def _tolerance(truth: _Truth, name: str, dtypes: list[np.dtype[np.generic]]) -> float:
    """Everybody's share: the coarsest of both files' and the runner's precision decides."""
    everybody = [*dtypes, truth.pair.source.weights.dtype, truth.pair.target.weights.dtype]
    coarsest = max(everybody, key=lambda dtype: np.finfo(dtype).eps)
    return for_dtype(truth.tolerances[name], coarsest)
