"""The commands, one function each: arguments in, one call of the library, its result shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rnnbridge import inspection, tables
from rnnbridge.cli.bench import bench
from rnnbridge.cli.info import gather
from rnnbridge.cli.output import complain, show
from rnnbridge.errors import VerificationError
from rnnbridge.proof import conversion, verification
from rnnbridge.proof.report import Report
from rnnbridge.version import version_of

_DONE, _DIFFERENT = 0, 1
_Command = Callable[..., Any]


def _pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE options as a dict. A layer's name may hold "=", its value may not: the last one divides."""
    wrong = [text for text in values if not all(text.rpartition("="))]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not of the form {parameter.metavar}", context, parameter)
    return {key: value for key, _, value in (text.rpartition("=") for text in values)}


def _setting(name: str, what: str) -> Callable[[_Command], _Command]:
    return click.option(name, multiple=True, metavar="KEY=VALUE", callback=_pairs, help=what)


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_SET = "What the file does not say; LAYER.KEY=VALUE for one layer. May be repeated."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version_of() or "unknown, not installed", prog_name="rnnbridge")
def rnnbridge() -> None:
    """Trained recurrent weights between frameworks: exact or refused, always proven."""


@rnnbridge.command()
@click.argument("file")
@_setting("--set", _SET)
@_json
def inspect(file: str, set: dict[str, str], as_json: bool) -> int:  # noqa: A002 (the option's name)
    """What is inside FILE.

    Layers, formulas, gate orders, sizes, biases, the evidence and the assumptions, and who can hold each layer.
    """
    found = inspection.inspect(file, settings=set)
    show(found.to_dict() if as_json else found)
    return _DONE


@rnnbridge.command()
@click.argument("src")
@click.argument("dst")
@click.option("--to", metavar="FORMAT", help="The format of DST, where its name does not say it (see: formats).")
@click.option("--layer", "layers", multiple=True, metavar="NAME", help="Only this layer. May be repeated.")
@_setting("--set", "What SRC does not say, or an option of DST's format; LAYER.KEY=VALUE for one layer. Repeatable.")
@click.option("--batch-first", is_flag=True, help="DST's sequences are [N, T, .]; in SRC's order unless given.")
@click.option("--time-first", is_flag=True, help="DST's sequences are [T, N, .].")
@click.option("--no-verify", is_flag=True, help="Publish without proof.")
@click.option("--dry-run", is_flag=True, help="Only show what would be written, layer by layer.")
@click.option("--force", is_flag=True, help="Replace DST if it exists.")
@_json
def convert(
    src: str,
    dst: str,
    to: str | None,
    layers: tuple[str, ...],
    set: dict[str, str],  # noqa: A002 (the option's name)
    batch_first: bool,
    time_first: bool,
    no_verify: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Write SRC's layers to DST, proven.

    DST appears only once it is proven: SRC and DST are run on the same inputs by rnnbridge and by every framework that
    is installed and can run them.
    """
    if batch_first and time_first:
        raise click.UsageError("--batch-first and --time-first contradict each other; give one")
    try:
        report = conversion.convert(
            src,
            dst,
            to,
            layers=layers or None,
            settings=set,
            overwrite=force,
            batch_first=batch_first if batch_first or time_first else None,
            verify=not no_verify,
            dry_run=dry_run,
        )
    except VerificationError as error:
        if isinstance(error.report, Report):
            _show_report(error.report, as_json)
        raise
    _show_report(report, as_json)
    for left_out in report.not_converted:
        complain(f"not converted: {left_out}")
    return _DONE


@rnnbridge.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="a=b",
    callback=_pairs,
    help="Compare layer a of A with b of B.",
)
@_setting("--set-a", "What A does not say. May be repeated.")
@_setting("--set-b", "What B does not say. May be repeated.")
@click.option("--seed", default=0, show_default=True, help="Of the inputs.")
@_json
def verify(
    a: str, b: str, pairs: dict[str, str], set_a: dict[str, str], set_b: dict[str, str], seed: int, as_json: bool
) -> int:
    """Whether A and B give the same numbers.

    Both are run on the same inputs by rnnbridge and by every framework that is installed and can run them. Exit 0 only
    if the numbers are the same.
    """
    report = verification.verify(a, b, pairs or None, settings_a=set_a, settings_b=set_b, seed=seed)
    _show_report(report, as_json)
    if not report:
        complain(report.summary)
    return _DONE if report else _DIFFERENT


@rnnbridge.command()
@click.option("--framework", metavar="NAME", help="Only this framework's rows, with the source of each.")
@_json
def conventions(framework: str | None, as_json: bool) -> int:
    """How each framework lays out each layer."""
    table = tables.conventions(framework)
    show(list(table) if as_json else table)
    return _DONE


@rnnbridge.command()
@_json
def formats(as_json: bool) -> int:
    """What is read and written."""
    table = tables.formats()
    show(list(table) if as_json else table)
    return _DONE


@rnnbridge.command()
@_json
def info(as_json: bool) -> int:
    """Version, instruction set, threads, extras found."""
    found = gather()
    show(found.to_dict() if as_json else found)
    return _DONE


rnnbridge.add_command(bench)


def _show_report(report: Report, as_json: bool) -> None:
    show(report.to_dict() if as_json else report)
