"""What goes to standard output and standard error. A reader that went away is no error."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from rnnbridge.errors import FileAccessError
from rnnbridge.tables import text_width

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(what: dict[str, Any] | list[Any] | RenderableType) -> None:
    """Print: dicts and lists as JSON, anything else as rich draws it, with colours on a terminal only."""
    if isinstance(what, dict | list):
        _write(json.dumps(what, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from rich.console import Console

    drawn = io.StringIO()
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(
        file=drawn,
        width=text_width(),
        highlight=False,
        markup=False,
        force_terminal=on_terminal,
        no_color=not on_terminal,
    )
    console.print(what, crop=False)
    _write("\n".join(line.rstrip() for line in drawn.getvalue().splitlines()))


def complain(message: str) -> None:
    """A line for the user on standard error."""
    click.echo(message, err=True)


def _write(text: str) -> None:
    if sys.stdout is None:  # closed by whoever called
        return
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `rnnbridge inspect FILE | head`: what was asked for is done all the same
        _discard_the_rest()
    except OSError as error:
        _discard_the_rest()
        raise FileAccessError(f"cannot write the output: {error.strerror or error}") from error


def _discard_the_rest() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
