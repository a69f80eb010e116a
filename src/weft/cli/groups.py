"""``weft groups``: lists groups, or one, as it always did; ``weft groups set`` says what becomes of failing events."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli import mesh
from weft.cli.options import ContextName, Insecure, Nodes, Where

LIST = "ls"


class ListsByDefault(TyperGroup):
    """What is no command is the name of a group to list. ``weft groups ls NAME`` lists one that is called as a command
    is."""

    # Any: these types are click's for older versions of typer, and its own for newer ones.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ListsByDefault, help="List the groups, or say what becomes of events that fail.")
app.command(LIST)(mesh.groups)


@app.command("set")
def set_group(
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False)],
    max_deliveries: Annotated[
        int | None, typer.Option(help="After so many tries an event is a dead letter.", show_default=False)
    ] = None,
    retry_s: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="SHORTEST LONGEST", help="Seconds to the first retry, and at most.", show_default=False),
    ] = None,
    retry: Annotated[
        str | None,
        typer.Option(metavar="in_order|set_aside", help="Whether the stream waits meanwhile.", show_default=False),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Where dead letters go; '' is weft.dead.GROUP.", show_default=False),
    ] = None,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Say what becomes of events that the group's readers cannot handle. What is not given stays as it is."""
    from weft.cli.letters import set_policy

    set_policy(Where(node, insecure, context), group, max_deliveries, retry_s, retry, dead_letter)
