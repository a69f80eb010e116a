"""``weft request`` and ``weft serve``: ask on a topic, and answer there with a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where, misused


def request(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="F|-", help="Take the request from a file; - is standard input.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="K=V", help="May be given again.", show_default=False)
    ] = None,
    many: Annotated[bool, typer.Option("--many", help="Print all replies, not only the first.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="S", help="Seconds to wait for the reply; with --many, for each.")
    ] = 5.0,
    total: Annotated[
        float, typer.Option(min=0, metavar="S", help="With --many, seconds to wait for all replies.")
    ] = 60.0,
    attempts: Annotated[int, typer.Option(min=1, help="Ask again if the server is lost; it may be handled twice.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Write neither request nor reply to a log.")] = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Send a request to one of a topic's servers, and print the reply. Status 1 if nobody serves it or answers."""
    if (payload is None) == (file is None):
        misused("there is nothing to ask: give PAYLOAD, or --file F")
    from weft.cli.pub_work import Template, read_payload
    from weft.cli.request_work import Asking, ask

    template = Template.parse(topic, None, header or [], 0)
    data = payload.encode() if payload is not None else read_payload(file)
    wanted = Asking(template, data, many, timeout, total, attempts, not quick, json)
    ask(Where(node, insecure, context), wanted)


def serve(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Topics: sums, or 'sums.*'.", show_default=False)],
    command: Annotated[
        str,
        typer.Option(
            metavar="CMD",
            help="Run for each request: its input is the request, its output is the reply. No shell reads it: "
            "write sh -c '...' for pipes and variables.",
            show_default=False,
        ),
    ],
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Requests at once.")] = 4,
    lines: Annotated[bool, typer.Option("--lines", help="Every line of its output is a reply.")] = False,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many requests.", show_default="endless")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per handled request.")] = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Answer requests to topics with a command, until Ctrl-C. All servers of a topic share its requests."""
    from weft.cli.request_work import Serving, serve_command

    serve_command(Where(node, insecure, context), Serving(pattern, command, concurrency, lines, count, json))
