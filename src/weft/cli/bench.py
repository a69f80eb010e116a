"""``weft bench``: measure a mesh from the outside."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

DEFAULT_S = 5.0


def bench(
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help="To measure from several machines: subscribers read events on this topic from now on.",
            show_default="bench.<a random name>",
        ),
    ] = None,
    publishers: Annotated[int, typer.Option(min=0, metavar="N", help="Each has its own connection.")] = 1,
    subscribers: Annotated[
        int, typer.Option(min=0, metavar="N", help="Each has its own connection and gets every event.")
    ] = 1,
    size: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Of each payload.")] = 100,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Events in one call.")] = 1,
    in_flight: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many calls each publisher has under way at once.")
    ] = 1,
    topics: Annotated[int, typer.Option(min=1, metavar="N", help="Publish to this many topics in turn.")] = 1,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="EVENTS/S", help="Of all publishers.", show_default="as fast as it goes"),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="S", help="How long.", show_default=f"{DEFAULT_S:g}, unless --events is given"),
    ] = None,
    events: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many events in all.", show_default=False)
    ] = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Publish and subscribe as applications do, and show rates and times. The events stay in the log like others."""
    from weft.cli.bench_work import run
    from weft.load import Load

    load = Load(
        topic="bench" if topic is None else topic,
        publishers=publishers,
        subscribers=subscribers,
        size=size,
        batch=batch,
        in_flight=in_flight,
        topics=topics,
        rate=rate,
        seconds=DEFAULT_S if seconds is None and events is None else seconds,
        events=events,
        is_fresh=topic is None,
    )
    run(Where(node, insecure, context), load, json)
