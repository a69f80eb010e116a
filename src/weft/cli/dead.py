"""``weft dead``: events that a group's readers could not handle."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.dead_work import drop_letters, replay_letters, show_letter, show_letters
from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

app = typer.Typer(no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Events = Annotated[
    list[str] | None,
    typer.Argument(metavar="EVENT", help="Identities, as 'weft dead ls' prints them.", show_default=False),
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]


@app.command("ls")
@app.command("list", hidden=True)
def list_letters(
    group: Group, json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """List a group's dead letters: event, tries, when it was given up, why."""
    show_letters(Where(node, insecure, context), group, json)


@app.command()
def show(
    group: Group,
    event: Annotated[str, typer.Argument(metavar="EVENT", show_default=False)],
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Show one dead letter: the whole event, and why it failed."""
    show_letter(Where(node, insecure, context), group, event, json)


@app.command()
def replay(
    group: Group,
    events: Events = None,
    everything: All = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Publish events again to their topics, and drop their letters. Everybody who reads the topic gets them again."""
    replay_letters(Where(node, insecure, context), group, events or [], everything, json)


@app.command()
def drop(
    group: Group,
    events: Events = None,
    everything: All = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Drop dead letters: they are done with."""
    drop_letters(Where(node, insecure, context), group, events or [], everything, json)
