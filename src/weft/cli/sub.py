"""``weft sub``: print events as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Nodes, Where


def sub(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Topics: plant.*.temp, or '>' for all.", show_default=False)
    ],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="earliest|latest|OFFSET|RFC3339",
            help="The place to begin in each stream.",
            show_default="the group's position, else latest",
        ),
    ] = None,
    group: Annotated[
        str,
        typer.Option(
            help="Share the events with other members of this group, and remember the position.", show_default=False
        ),
    ] = "",
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many events.", show_default="endless")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            help="End after this many seconds; status 1 if fewer than --count came.",
            show_default="never",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per event.")] = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Print the events of every topic that matches, one per line, as they come."""
    from weft.cli.subscribing import Wanted, parse_begin, print_events

    wanted = Wanted(pattern, parse_begin(begin), group, count, timeout, json)
    print_events(Where(node, insecure, context), wanted)
