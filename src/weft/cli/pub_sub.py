"""``weft pub``: publish an event, or every line of a file. ``weft sub``: print events as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where, misused


def pub(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="The event.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="Events of one key stay in order.", show_default=False)] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="K=V", help="May be given again.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="F|-", help="Take the event from a file; - is standard input.", show_default=False),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line is an event; lines come from standard input, or from --file.")
    ] = False,
    copies: Annotated[
        int, typer.Option(min=0, help="Wait until this many nodes have synced it.", show_default="as the topic has it")
    ] = 0,
    deliver_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Deliver it at this time: 2026-12-24T18:00:00Z.", show_default=False),
    ] = None,
    delay: Annotated[
        float | None, typer.Option(metavar="S", help="Deliver it after this many seconds.", show_default=False)
    ] = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Publish an event and print its receipt: where it is, and on how many nodes it is synced to disk."""
    if payload is not None and (file is not None or lines):
        misused("PAYLOAD is one event: it cannot be combined with --file or --lines")
    if payload is None and file is None and not lines:
        misused("there is nothing to publish: give PAYLOAD, --file F, or --lines")
    from weft.cli.pub_work import Template, publish_lines, publish_one, read_payload

    where = Where(node, insecure, context)
    template = Template.parse(topic, key, header or [], copies, deliver_at, delay)
    if lines:
        publish_lines(where, template, file, json)
    else:
        publish_one(where, template, payload.encode() if payload is not None else read_payload(file), json)


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
    from weft.cli.sub_work import Wanted, parse_begin, print_events

    wanted = Wanted(pattern, parse_begin(begin), group, count, timeout, json)
    print_events(Where(node, insecure, context), wanted)
