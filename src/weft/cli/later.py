"""``weft later``: events that wait for a later time (``weft pub --delay``, ``--deliver-at``)."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.later_work import cancel_waiting, show_waiting
from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

app = typer.Typer(no_args_is_help=True)

Events = Annotated[
    list[str],
    typer.Argument(metavar="EVENT...", help="Identities, as 'weft later ls' prints them.", show_default=False),
]


@app.command("ls")
@app.command("list", hidden=True)
def list_waiting(
    json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """List the events that wait at any node: when each is due, its topic, its size. With the admin right it lists
    everybody's.
    """
    show_waiting(Where(node, insecure, context), json)


@app.command()
def cancel(
    events: Events, json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """Cancel events that wait: they are not delivered."""
    cancel_waiting(Where(node, insecure, context), events, json)
