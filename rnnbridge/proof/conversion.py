"""`convert`: load, plan, write, prove; and publish only what was proven."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rnnbridge.bundle import format_for, load, path_of, write
from rnnbridge.catalogue import Settings, Written
from rnnbridge.errors import ArgumentError, VerificationError
from rnnbridge.files.atomic import replacing
from rnnbridge.proof.comparison import Side, compare
from rnnbridge.proof.pairing import by_names
from rnnbridge.proof.reading import on_reading
from rnnbridge.proof.report import AppliedRewrite, ProvenLayer, Report
from rnnbridge.weights import Bundle, describe

_DRY = "a dry run: nothing was written and nothing was run"
_NOTHING_TO_RUN = (
    "there is no recurrent layer, so nothing was run; every array is carried, and the report names each layer"
)
Names = tuple[tuple[str, ...], tuple[str, ...]]


def convert(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 (the public name)
    *,
    layers: str | Sequence[str] | None = None,
    settings: Mapping[str, str] | None = None,
    overwrite: bool = False,
    batch_first: bool | None = None,
    verify: bool = True,
    dry_run: bool = False,
    seed: int = 0,
    time_limit: float = 120,
) -> Report:
    """Write a file's recurrent layers in another format, and prove that the numbers are the same.

    The target is written beside its place, read back and verified against the source as `verify` does; only then does
    it appear under its name.

    Args:
        src: the file to be read.
        dst: the file to be written; its name says the format unless `format` does.
        layers: only this layer, or these, by name; None is all.
        settings: what the source does not say, and options of the target's format, by key or "layer.key".
        overwrite: replace an existing target.
        batch_first: the order of sequences that the target says; None keeps the source's.
        verify: False publishes without proof.
        dry_run: only say what would be written: nothing is proven and nothing appears.
        seed, time_limit: as `verify` takes them.

    Returns:
        The report of the proof.

    Raises:
        VerificationError: the numbers differ; `report` says where. Nothing was written.
        Incompatible: the target cannot hold a layer; `reasons` has every reason. Nothing was written.
        TargetExistsError, FileAccessError, FormatError, ArgumentError: nothing was written.
    """
    target, asked = path_of(dst), Settings(settings)
    if _is_same_file(path_of(src), target):
        raise ArgumentError(f"{dst} is the source itself; give the target another name")
    chosen = format_for(target, format)
    source = load(src, settings=asked)
    names = [layers] if isinstance(layers, str) else list(source if layers is None else layers)
    wanted = replace(source, layers={name: source[name] for name in names})
    with _drafted(target, overwrite=overwrite, dry_run=dry_run) as draft:
        written = write(wanted, draft, chosen, batch_first=batch_first, settings=asked)
        asked.check_all_used()
        report = _report(wanted, written, Path(src), target, seed)
        if dry_run:
            return replace(_with_left(report, source, wanted), notices=(*report.notices, _DRY))
        if not wanted.layers:
            report = replace(report, notices=(*report.notices, _NOTHING_TO_RUN))
        elif verify:
            report = _prove(report, Side("source", wanted, settings or {}), written, draft, time_limit)
        else:
            report = replace(report, notices=(*report.notices, "not verified, as asked"))
        report = _with_left(report, source, wanted)
        if not report:
            raise VerificationError(f"{target} was not written, {report.summary}", report)
    return report


@contextmanager
def _drafted(target: Path, *, overwrite: bool, dry_run: bool) -> Iterator[Path]:
    """A path to write to, which becomes the target; in a dry run it lies elsewhere and is removed."""
    if dry_run:
        with TemporaryDirectory(prefix="rnnbridge-") as folder:
            yield Path(folder) / target.name
    else:
        with replacing(target, overwrite=overwrite) as draft:
            yield draft


def _with_left(report: Report, source: Bundle, wanted: Bundle) -> Report:
    left = tuple(f"layer {name}: not asked for" for name in source.layers if name not in wanted.layers)
    return replace(report, not_converted=(*left, *report.not_converted))


def _is_same_file(src: Path, target: Path) -> bool:
    try:
        return target.samefile(src)
    except OSError:  # one is not there or cannot be; reading and writing say which
        return False


def _report(source: Bundle, written: Written, src: Path, dst: Path, seed: int) -> Report:
    """What is known before anything is run."""
    return Report(
        source=str(src),
        target=str(dst),
        seed=seed,
        layers=tuple(_layers(source, written)),
        rewrites=tuple(dict.fromkeys(_rewrites(source, written))),
        not_converted=written.not_converted,
        model=written.model,
        notices=(*source.notices, *written.notices, *dict.fromkeys(_padding(source, written))),
    )


def _padding(source: Bundle, written: Written) -> Iterator[str]:
    words = {"zero": "gives zeros", "repeat": "repeats the last output"}
    for one in written.layers:
        have, held = source[one.source].origin.padding, one.plan.row.padding
        if have != held:
            yield f"{one.source}: past a sequence's length the source {words[have]} and the target {words[held]}"


def _prove(report: Report, source: Side, written: Written, draft: Path, time_limit: float) -> Report:
    settings = {f"{one.target}.{key}": value for one in written.layers for key, value in one.settings.items()}
    target = Side("target", load(draft, settings=settings), settings)
    pairs = by_names(source.bundle, target.bundle, _names(written), "as written").pairs
    found = compare(source, target, pairs, report.seed, time_limit)
    return replace(
        report,
        measurements=tuple(found.measurements),
        judges=tuple(found.judges),
        notices=(*report.notices, *found.notices),
    )


def _names(written: Written) -> list[Names]:
    """Sources and targets that belong together: a stack written as several layers, or several as one stack."""
    groups: list[tuple[list[str], list[str]]] = []
    for one in written.layers:
        group = next((found for found in groups if one.source in found[0] or one.target in found[1]), None)
        if group is None:
            groups.append(([one.source], [one.target]))
            continue
        for names, name in zip(group, (one.source, one.target), strict=True):
            if name not in names:
                names.append(name)
    return [(tuple(ours), tuple(theirs)) for ours, theirs in groups]


def _layers(source: Bundle, written: Written) -> Iterator[ProvenLayer]:
    for ours, theirs in _names(written):
        constructors = {one.target: one.constructor for one in written.layers if one.target in theirs}
        description = " + ".join(describe(source[name].spec) for name in ours)
        yield ProvenLayer(
            " + ".join(ours), " + ".join(theirs), "as written", description, "; ".join(constructors.values())
        )


def _rewrites(source: Bundle, written: Written) -> Iterator[AppliedRewrite]:
    for one in written.layers:
        yield from on_reading(one.source, source[one.source], "source")
        for step in one.plan.steps:
            yield AppliedRewrite(one.source, step.name, step.detail, step.same_bits, step.training)
