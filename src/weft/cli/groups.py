"""``weft groups``: lists groups, or one. ``set`` says what becomes of events that fail, ``drop`` ends a group."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli.mesh import Group
from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

LIST = "ls"


class ListsByDefault(TyperGroup):
    """A word that is not a command is the name of a group to list. ``weft groups ls NAME`` lists a group that has the
    name of a command.
    """

    # Any: these types are click's for older versions of typer, and its own for newer ones.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ListsByDefault, help="List the groups, set what happens to events that fail, or drop a group.")


@app.command(LIST)
@app.command("list", hidden=True)
@app.command("show", hidden=True)  # as keys, dead letters and others are shown
def list_groups(
    group: Group = "",
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """List the groups that the key may use: members, streams, and how far behind they are. This is the default."""
    from weft.cli.mesh_work import show_groups

    show_groups(Where(node, insecure, context), group, json)


@app.command("set")
def set_group(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    max_deliveries: Annotated[
        int | None, typer.Option(help="After this many tries an event becomes a dead letter.", show_default=False)
    ] = None,
    retry_s: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="SHORTEST LONGEST", help="Seconds until the first retry, and the longest pause.", show_default=False
        ),
    ] = None,
    retry: Annotated[
        str | None,
        typer.Option(metavar="in_order|set_aside", help="Whether the stream waits for the retry.", show_default=False),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="The topic for dead letters; '' is weft.dead.GROUP.", show_default=False),
    ] = None,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Set what happens to events that the group's readers cannot handle. Settings not given stay as they are."""
    from weft.cli.dead_work import set_policy

    set_policy(Where(node, insecure, context), group, max_deliveries, retry_s, retry, dead_letter)


@app.command()
def drop(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """End a group in the whole mesh. Its members are told. A later group of the same name starts from nothing."""
    from weft.cli.mesh_work import drop_group

    drop_group(Where(node, insecure, context), group)
