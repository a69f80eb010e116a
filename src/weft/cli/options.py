"""Options that client commands share. Light on purpose: ``weft --help`` loads neither gRPC nor Arrow.

Command modules hold the options only; each loads what does the work when it is called.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, NoReturn

import typer

from weft.cli.console import fail

INTERRUPTED: Final = 130  # the status after Ctrl-C, as a shell has it

Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="HOST:PORT", help="A node to connect to; may be given again.", show_default=False),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text, for a node that was started with --insecure.")]
ContextName = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Use this context (weft context).", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


class Where(NamedTuple):
    """What flags say about whom to connect to."""

    nodes: list[str] | None
    insecure: bool
    context: str | None


def misused(message: str) -> NoReturn:
    """The command line itself is wrong: one line and status 2."""
    fail(message, status=2)
