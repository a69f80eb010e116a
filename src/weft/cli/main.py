"""The ``weft`` command: what belongs to all of its parts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weft import __version__
from weft.cli import log, packet
from weft.cli.console import fail
from weft.errors import WeftError

app = typer.Typer(
    name="weft",
    help="Weft, an event mesh for Python and Spark teams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(log.app, name="log")
app.add_typer(packet.app, name="packet")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Weft, an event mesh for Python and Spark teams."""


def main() -> None:
    """Entry point: errors that Weft raises on purpose are one line, not a traceback."""
    try:
        app()
    except WeftError as error:
        fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        raise SystemExit(141) from None
