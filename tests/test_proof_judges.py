"""Frameworks judge in processes of their own; one that crashes, hangs or refuses is said, and passes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rnnbridge.catalogue import Judge, JudgeTask
from rnnbridge.errors import Incompatible
from rnnbridge.proof import convert, judge_main, judges, verify
from rnnbridge.proof.samples import samples_for
from rnnbridge.proof.tolerance import Outputs, expectation, for_dtype, run_reference
from rnnbridge.weights import RNNWeights, stack
from tests.samples import spec_of, weights_of
from tests.standin import install, plain_format, write_file


def by_reference(task: JudgeTask) -> Outputs:
    """An honest judge."""
    return run_reference(task.weights.spec, task.weights.arrays, task.x, task.h0, task.c0, task.lengths)


def without_lengths(task: JudgeTask) -> Outputs:
    """A judge that cannot run some samples."""
    if task.lengths is not None:
        raise Incompatible("refused", ["it takes no lengths"])
    return by_reference(task)


def wrong(task: JudgeTask) -> Outputs:
    """A judge that reads the file otherwise."""
    return {name: 1.01 * array for name, array in by_reference(task).items()}


def save(path: Path, **layers: RNNWeights) -> Path:
    write_file(path, {name: (one.spec, one.arrays) for name, one in layers.items()}, {})
    return path


def judged_by(monkeypatch: pytest.MonkeyPatch, run: object, in_process: bool = True) -> None:
    """Let `plain` files have one judge; its process is this one, since another would not know it."""
    judge = Judge("Somebody", "json", run)  # type: ignore[arg-type]
    install(monkeypatch, plain_format("plain", judges=(judge,)))

    def run_here(folder: Path, time_limit: float) -> str:
        judge_main.main(folder)
        return ""

    if in_process:
        monkeypatch.setattr(judges, "_run_process", run_here)


def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Let the judges' process be this script."""
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def pair(tmp_path: Path) -> tuple[Path, Path]:
    weights = weights_of(spec_of("lstm", direction="bidirectional"))
    return save(tmp_path / "a.plain", rnn=weights), save(tmp_path / "b.plain", rnn=weights)


def test_a_judge_that_agrees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, by_reference)
    report = verify(*pair(tmp_path))
    assert report
    assert report.judges == (f"Somebody {json.__version__}",)
    found = [one for one in report.measurements if one.runner == report.judges[0]]
    assert {(one.file, one.output) for one in found} == {(f, o) for f in ("source", "target") for o in "yhc"}


def test_a_judge_that_disagrees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, wrong)
    report = verify(*pair(tmp_path))
    assert not report
    assert {one.runner for one in report.failures} == set(report.judges)
    assert "Somebody" in report.summary


def test_a_judge_that_refuses_some_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, without_lengths)
    report = verify(*pair(tmp_path))
    assert report
    assert len(report.judges) == 1
    assert f"{report.judges[0]} does not run the source's rnn: it takes no lengths" in report.notices


@pytest.mark.parametrize("missing", ["y", "c"])
def test_a_judge_that_leaves_an_output_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    judged_by(monkeypatch, lambda task: {k: v for k, v in by_reference(task).items() if k != missing})
    if missing == "y":
        with pytest.raises(KeyError):
            verify(*pair(tmp_path))
    else:
        assert verify(*pair(tmp_path)).max_abs_error == np.inf


def test_layers_apart_are_judged_as_the_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, by_reference)
    parts = [weights_of(spec_of("lstm", input_size=size, direction="bidirectional"), size) for size in (5, 6, 6)]
    together = save(tmp_path / "a.plain", stack=stack(parts))
    apart = save(tmp_path / "b.plain", one=parts[0], two=parts[1], three=parts[2])
    report = verify(together, apart)
    assert report
    assert {one.file for one in report.measurements if one.runner in report.judges} == {"source", "target"}


def test_a_judge_that_crashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, by_reference, in_process=False)
    command(monkeypatch, tmp_path, "import os\nprint('half a thought', flush=True)\nos.abort()")
    report = verify(*pair(tmp_path))
    assert report.judges == ()
    runners = {one.runner for one in report.measurements if one.output != "weights"}
    assert runners == {"rnnbridge engine"} or "reference" in str(report)
    [notice] = [one for one in report.notices if "could not run the source" in one]
    assert "exit status -6" in notice
    assert "| half a thought" in notice
    assert any("rnnbridge alone" in one for one in report.notices)


def test_a_judge_that_takes_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    judged_by(monkeypatch, by_reference, in_process=False)
    command(monkeypatch, tmp_path, "import time\nprint('thinking', flush=True)\ntime.sleep(600)")
    report = verify(*pair(tmp_path), time_limit=1)
    assert report.judges == ()
    assert any("stopped after 1 s" in one and "| thinking" in one for one in report.notices)


def test_what_ran_before_a_crash_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_one(folder: Path, time_limit: float) -> str:
        with pytest.raises(ZeroDivisionError):
            judge_main.main(folder)
        return "ended with exit status 1"

    def second_crashes(task: JudgeTask) -> Outputs:
        return {} if task.layer == "two" and 1 / 0 else by_reference(task)

    judged_by(monkeypatch, second_crashes)
    monkeypatch.setattr(judges, "_run_process", run_one)
    layers = {"one": weights_of(spec_of("lstm")), "two": weights_of(spec_of("gru_after"))}
    report = verify(save(tmp_path / "a.plain", **layers), save(tmp_path / "b.plain", **layers))
    assert {one.layer for one in report.measurements if one.runner in report.judges} == {"one"}
    assert any("could not run" in one for one in report.notices)


def test_a_judge_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, plain_format("plain", judges=(Judge("Nobody", "no_such_module", by_reference),)))
    report = verify(*pair(tmp_path))
    assert report
    for file in ("source", "target"):
        assert f"the {file}: read and run by rnnbridge alone; install Nobody to have Nobody judge it" in report.notices


@pytest.mark.slow
def test_pytorch_itself_judges_in_its_own_process(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not here to judge")
    spec = spec_of("lstm", num_layers=2, direction="bidirectional")
    weights = weights_of(spec, dtype="float64")
    source = tmp_path / "source.pt"
    torch.save({f"rnn.{name}": torch.from_numpy(array.copy()) for name, array in weights.arrays.items()}, source)
    report = convert(source, tmp_path / "target.safetensors")
    assert report
    assert report.judges == (f"PyTorch {torch.__version__}",)
    runs = {(one.file, one.output) for one in report.measurements if one.runner in report.judges}
    assert runs == {(file, output) for file in ("source", "target") for output in ("y", "h", "c")}
    samples = [(one.x, one.h0, one.c0, one.lengths) for one in samples_for(spec, report.seed)]
    single = max(max(expectation(spec, weights.arrays, *one).tolerance.values()) for one in samples)
    assert report.tolerance <= for_dtype(single, np.float64)


def test_samples_cross_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[JudgeTask] = []
    judged_by(monkeypatch, lambda task: (seen.append(task), by_reference(task))[1])
    spec = spec_of("lstm")
    path = save(tmp_path / "a.plain", rnn=weights_of(spec))
    samples = samples_for(spec, 0)
    [judge] = judges.judges_of("plain")[0]
    verdict = judges.run(judges.Trial(judge, path, "plain", {}, [judges.Chain(("rnn",), samples)]), 60)
    assert len(verdict.outputs) == len(seen) == len(samples)
    for task, sample in zip(seen, samples, strict=True):
        assert np.array_equal(task.x, sample.x)
        assert np.array_equal(task.c0, sample.c0)
        assert (task.lengths is None) == (sample.lengths is None)
