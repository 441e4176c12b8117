"""Conversions appear only when they are proven; whatever goes wrong leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnnbridge.bundle import load
from rnnbridge.errors import (
    ArgumentError,
    FileAccessError,
    FormatError,
    Incompatible,
    RNNBridgeError,
    TargetExistsError,
    VerificationError,
)
from rnnbridge.proof import Report, convert
from tests.samples import spec_of, weights_of
from tests.standin import standins, write_file

pytestmark = pytest.mark.usefixtures("standins")
__all__ = ["standins"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two layers and an array that is none."""
    layers = {"lower": weights_of(spec_of("lstm", bias="single")), "upper": weights_of(spec_of("gru_after"))}
    path = tmp_path / "source.plain"
    write_file(path, {name: (one.spec, one.arrays) for name, one in layers.items()}, {"dense": np.ones((2, 3))})
    return path


def refused(
    error: type[RNNBridgeError], source: Path, target: Path, match: str, **options: object
) -> pytest.ExceptionInfo:
    """The error of a conversion that must leave the folder as it was."""
    before = {path: path.read_bytes() if path.is_file() else None for path in source.parent.rglob("*")}
    with pytest.raises(error, match=match) as caught:
        convert(source, target, **options)  # type: ignore[arg-type]
    assert {path: path.read_bytes() if path.is_file() else None for path in source.parent.rglob("*")} == before
    return caught


def test_a_conversion_is_proven_and_says_what_it_did(source: Path, tmp_path: Path) -> None:
    report = convert(source, tmp_path / "target.plain")
    assert report
    assert load(report.target).layers.keys() == {"lower", "upper"}
    assert {one.source for one in report.layers} == {"lower", "upper"}
    assert {one.constructor for one in report.layers} == {"plain(lower)", "plain(upper)"}
    assert [(one.layer, one.name, one.same_bits) for one in report.rewrites] == [("lower", "split bias", True)]
    assert {one.file for one in report.measurements} == {"source", "target"}
    assert "a stand-in" in report.notices
    assert "written as .plain" in report.notices
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.plain", "target.plain"]


def test_a_stack_written_as_its_layers_is_proven_as_a_stack(tmp_path: Path) -> None:
    stacked = weights_of(spec_of("lstm", num_layers=3, direction="bidirectional"))
    write_file(tmp_path / "source.plain", {"rnn": (stacked.spec, stacked.arrays)}, {"dense": np.ones(3)})
    report = convert(tmp_path / "source.plain", tmp_path / "target.split")
    assert report
    assert [(one.source, one.target) for one in report.layers] == [("rnn", "rnn_0 + rnn_1 + rnn_2")]
    assert report.layers[0].constructor == "plain(rnn_0); plain(rnn_1); plain(rnn_2)"
    assert report.not_converted == ("dense",)
    assert len(load(report.target)) == 3


def test_only_the_layers_asked_for(source: Path, tmp_path: Path) -> None:
    report = convert(source, tmp_path / "target.plain", layers=["upper"])
    assert list(load(report.target).layers) == ["upper"]
    assert report.not_converted == ("layer lower: not asked for",)
    assert list(load(convert(source, tmp_path / "one.plain", layers="lower").target).layers) == ["lower"]
    for wrong in (["uper"], "uper"):
        refused(ArgumentError, source, tmp_path / "other.plain", "'uper'.*'lower', 'upper'", layers=wrong)


def test_the_same_input_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "one.plain")
    convert(source, tmp_path / "two.plain", seed=1)
    assert (tmp_path / "one.plain").read_bytes() == (tmp_path / "two.plain").read_bytes()


def test_a_writer_that_is_wrong_publishes_nothing(source: Path, tmp_path: Path) -> None:
    caught = refused(VerificationError, source, tmp_path / "target.wrong", "was not written, DIFFERENT: upper|lower")
    report = caught.value.report
    assert isinstance(report, Report)
    assert {one.file for one in report.failures} == {"target"}
    assert {one.layer for one in report.failures} == {"lower", "upper"}


def test_without_verification_it_is_said(source: Path, tmp_path: Path) -> None:
    report = convert(source, tmp_path / "target.wrong", verify=False)
    assert (tmp_path / "target.wrong").exists()
    assert "not verified, as asked" in report.notices
    assert report.measurements == ()
    assert np.isnan(report.max_abs_error)


def test_one_set_of_settings_serves_reader_and_writer(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "target.plain", settings={"lower.order": "ifgo", "compression": "none"})
    refused(ArgumentError, source, tmp_path / "b.plain", "'ordre'.*order, compression", settings={"ordre": "ifgo"})


def test_a_target_that_exists_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.plain"
    target.write_text("precious")
    refused(TargetExistsError, source, target, "overwrite")
    assert convert(source, target, overwrite=True)
    assert load(target).layers.keys() == {"lower", "upper"}


def test_an_old_target_survives_a_failed_replacement(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.wrong"
    target.write_text("precious")
    refused(VerificationError, source, target, "not written", overwrite=True)
    assert target.read_text() == "precious"


@pytest.mark.parametrize("place", ["missing/target.plain", "source.plain/target.plain"])
def test_a_folder_that_cannot_be_written(source: Path, tmp_path: Path, place: str) -> None:
    refused(
        FileAccessError, source, tmp_path / place, "cannot write .*target.plain: (No such file|Not a) ?(or )?directory"
    )


def test_a_target_that_is_a_folder(source: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.plain").mkdir()
    refused(FileAccessError, source, tmp_path / "folder.plain", "is a folder")


def test_a_full_disk(source: Path, tmp_path: Path) -> None:
    refused(FileAccessError, source, tmp_path / "target.full", "No space left on device")


def test_formats_that_are_not_known(source: Path, tmp_path: Path) -> None:
    refused(ArgumentError, source, tmp_path / "target.xyz", "known endings: .plain, .wrong, .full, .split")
    refused(ArgumentError, source, tmp_path / "target.plain", "unknown format 'plane'; known: plain", format="plane")


def test_a_layer_that_the_target_cannot_hold(tmp_path: Path) -> None:
    source = tmp_path / "source.plain"
    before = weights_of(spec_of("gru_before"))
    write_file(source, {"gru": (before.spec, before.arrays)}, {})
    caught = refused(Incompatible, source, tmp_path / "target.plain", "reset gate before")
    assert len(caught.value.reasons) == 1


def test_sources_that_are_no_good(source: Path, tmp_path: Path) -> None:
    whole = source.read_bytes()
    cut, empty, other = tmp_path / "cut.plain", tmp_path / "empty.plain", tmp_path / "other.plain"
    cut.write_bytes(whole[: len(whole) // 2])
    write_file(empty, {}, {"dense": np.ones(3)})
    other.write_bytes(b"not a file of any kind")
    refused(FormatError, cut, tmp_path / "target.plain", "damaged")
    refused(FormatError, empty, tmp_path / "target.plain", "no recurrent layer")
    refused(FormatError, other, tmp_path / "target.plain", "unknown or damaged")
    refused(FileAccessError, tmp_path / "missing.plain", tmp_path / "target.plain", "cannot read")


@pytest.mark.parametrize("spelling", ["a.plain", "./a.plain", "link.plain"])
def test_the_source_is_never_its_own_target(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weights = weights_of(spec_of("lstm"))
    write_file(Path("a.plain"), {"rnn": (weights.spec, weights.arrays)}, {})
    before = Path("a.plain").read_bytes()
    Path("link.plain").symlink_to("a.plain")
    with pytest.raises(ArgumentError, match="the source itself"):
        convert("a.plain", spelling, overwrite=True)
    assert Path("a.plain").read_bytes() == before
