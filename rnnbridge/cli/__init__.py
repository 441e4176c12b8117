"""The `rnnbridge` command: exit codes, and what a user sees of an error. The commands are in `commands.py`.

Exit codes: 0 done, 1 refused or different, 2 wrong usage, 3 an error of our own, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from rnnbridge.errors import RNNBridgeError

DONE, REFUSED, WRONG_USAGE, OUR_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: None takes those of the process.

    Returns:
        The exit code.
    """
    try:
        import click
        import rich  # noqa: F401 (the commands draw with it)
    except ModuleNotFoundError as error:
        print(f"rnnbridge: the command needs the package {error.name!r}: pip install {error.name}", file=sys.stderr)  # noqa: T201
        return REFUSED

    from rnnbridge.cli.commands import rnnbridge

    try:
        return int(rnnbridge.main(arguments, prog_name="rnnbridge", standalone_mode=False) or DONE)
    except RNNBridgeError as error:
        click.echo(f"rnnbridge: {error}", err=True)
        return REFUSED
    except click.UsageError as error:
        error.show()
        return WRONG_USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception:  # noqa: BLE001 (the last resort: whatever comes is shown whole)
        traceback.print_exc()
        click.echo("rnnbridge: an error of rnnbridge itself; please report it with the lines above", err=True)
        return OUR_ERROR
