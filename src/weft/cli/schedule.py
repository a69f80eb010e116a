"""``weft schedule``: events that the mesh publishes again and again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


class CatchUp(StrEnum):
    LAST = "last"
    NONE = "none"


@app.command()
def add(
    name: Name,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", show_default=False)],
    cron: Annotated[
        str,
        typer.Option(metavar="'M H D M W'", help="Minute, hour, day, month, weekday; or @daily.", show_default=False),
    ],
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Europe/Berlin, for instance.")] = "UTC",
    key: Annotated[str | None, typer.Option(help="Of the events.", show_default=False)] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="K=V", help="May be given again.", show_default=False)
    ] = None,
    catch_up: Annotated[
        CatchUp, typer.Option(help="After a time without a running node: fire the last missed time, or none.")
    ] = CatchUp.LAST,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a schedule of that name.")] = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Have the mesh publish an event at these times; exactly one node does."""
    from weft.cli.later_work import add_schedule
    from weft.cli.pub_work import Template

    template = Template.parse(topic, key, header or [], 0)
    options = {
        "cron": cron,
        "topic": template.topic,
        "payload": payload,
        "zone": zone,
        "key": template.key,
        "headers": template.headers,
        "catch_up": catch_up.value,
        "replace": replace,
    }
    add_schedule(Where(node, insecure, context), name, options, json)


@app.command("ls")
@app.command("list", hidden=True)
def list_schedules(
    json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """List schedules: when each fires next, and when it fired last. With the admin right it lists everybody's."""
    from weft.cli.later_work import show_schedules

    show_schedules(Where(node, insecure, context), json)


@app.command()
def show(
    name: Name, json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """Show one schedule, with what it publishes."""
    from weft.cli.later_work import show_schedule

    show_schedule(Where(node, insecure, context), name, json)


@app.command()
def rm(name: Name, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """Remove a schedule."""
    from weft.cli.later_work import remove_schedule

    remove_schedule(Where(node, insecure, context), name)


@app.command()
def pause(name: Name, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """Pause a schedule. Events that it would have published meanwhile are not published later."""
    from weft.cli.later_work import pause_schedule

    pause_schedule(Where(node, insecure, context), name)


@app.command()
def resume(
    name: Name, json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """Have a schedule that rests go on."""
    from weft.cli.later_work import resume_schedule

    resume_schedule(Where(node, insecure, context), name, json)
