"""`rnnbridge bench`: options to cases, progress, and where the results go."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rnnbridge.bench.cases import CELLS, MODES, SPREADS, Case, grid, short_grid
from rnnbridge.bench.machine import machine
from rnnbridge.bench.peer import Peer
from rnnbridge.bench.peers import PEERS, named
from rnnbridge.bench.plot import check_possible
from rnnbridge.bench.plot import plot as draw
from rnnbridge.bench.results import Row, table, write_json
from rnnbridge.bench.run import SHORT, Settings, run
from rnnbridge.cli.output import show

_SIZES = ("T", "N", "I", "H")


def _several(known: tuple[str, ...]) -> Any:
    def read(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(text.split(",")))
        if wrong := [word for word in words if word not in known]:
            raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(known)}", context, parameter)
        return words

    return read


def _counts(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and int(word) for word in words):
        raise click.BadParameter(f"{text!r} is not a list of numbers of at least 1: 1,2", context, parameter)
    return tuple(map(int, words))


def _shape(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    sizes = None if text is None else _counts(context, parameter, text)
    if sizes is not None and len(sizes) != len(_SIZES):
        raise click.BadParameter(f"{text!r} is not T,N,I,H: 128,32,64,64", context, parameter)
    return sizes


@click.command()
@click.option("--short", is_flag=True, help="A few shapes in about a minute, too few pairs for small differences.")
@click.option("--cell", default="lstm", show_default=True, callback=_several(CELLS), help=f"Of {', '.join(CELLS)}.")
@click.option("--shape", metavar="T,N,I,H", callback=_shape, help="Your own shape; or give -T, -N, -I and -H.")
@click.option("-T", "T", type=click.IntRange(1), help="Time steps.")
@click.option("-N", "N", type=click.IntRange(1), help="Batch size.")
@click.option("-I", "I", type=click.IntRange(1), help="Input size; H if not given.")
@click.option("-H", "H", type=click.IntRange(1), help="Hidden size.")
@click.option("--layers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--bidirectional", is_flag=True)
@click.option("--lengths", type=click.Choice(SPREADS), default="full", show_default=True, help="Of the sequences.")
@click.option("--dtype", type=click.Choice(("float32", "float64")), default="float32", show_default=True)
@click.option("--threads", metavar="1,2", default="1", show_default=True, callback=_counts, help="Numbers of threads.")
@click.option(
    "--mode", default="inference,training", show_default=True, callback=_several(MODES), help=f"Of {', '.join(MODES)}."
)
@click.option(
    "--peer",
    "names",
    multiple=True,
    type=click.Choice([one.name for one in PEERS]),
    help="Only this one. May be repeated.",
)
@click.option("--blocks", type=click.IntRange(1), help="Pairs of each case and peer (25, --short 7).")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write everything there.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Draw ratios and the part of the peak there.")
def bench(
    short: bool, names: tuple[str, ...], blocks: int | None, json_path: Path | None, picture: Path | None, **asked: Any
) -> int:
    """The engine against every peer that is installed, in one run.

    Without a shape: a grid that takes hours; --short takes about a minute. Each peer runs in a process of its own, is
    checked against float64, and timed in turn with ours.
    """
    cases = _cases(short, asked)
    settings = SHORT if short else Settings()
    if blocks:
        settings = replace(settings, blocks=blocks)
    about = machine(settings)
    rows: list[Row] = []
    if picture:
        check_possible()
    if json_path:
        write_json(json_path, rows, about)  # where that fails, now and not after hours
    try:
        for row in _shown(cases, settings, [named(name) for name in dict.fromkeys(names)] or list(PEERS)):
            rows.append(row)  # noqa: PERF402 (what was measured is kept if the run is interrupted)
    finally:
        if json_path:
            write_json(json_path, rows, about)
    if picture:
        draw(rows, picture)
    show(table(rows, about))
    return 0


def _cases(short: bool, asked: dict[str, Any]) -> list[Case]:
    """Those of the options that give a shape, else a grid."""
    sizes = dict(zip(_SIZES, asked["shape"] or (None,) * 4, strict=True))
    sizes = {name: asked[name] or size for name, size in sizes.items()}
    if not any(sizes.values()):
        return list(short_grid() if short else grid())
    sizes["I"] = sizes["I"] or sizes["H"]
    if missing := [name for name, size in sizes.items() if not size]:
        raise click.UsageError(f"a shape needs T, N and H; {', '.join(missing)} was not given")
    fixed = {name: asked[name] for name in ("layers", "bidirectional", "lengths", "dtype")}
    kinds = itertools.product(asked["cell"], asked["mode"], asked["threads"])
    return [Case(cell=cell, mode=mode, threads=threads, **sizes, **fixed) for cell, mode, threads in kinds]


def _shown(cases: list[Case], settings: Settings, peers: list[Peer]) -> Iterable[Row]:
    """The rows, with a bar on standard error while they come."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(cases) * len(peers))
        for row in run(cases, settings, peers, lambda text: bar.update(task, description=text)):
            bar.advance(task)
            yield row
