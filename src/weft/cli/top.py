"""``weft top``: the mesh in a terminal, as it is now."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Nodes, Where


def top(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Show these topics: plant.*.temp, or '>' for all.")
    ] = ">",
    interval: Annotated[float, typer.Option(min=0.2, metavar="S", help="Seconds between two looks.")] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="Ask twice, print one JSON document, and end.")] = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Watch nodes, topics and groups: rates, sizes, lag. Keys: 1 2 3, s to sort, / to filter, Enter for more, q."""
    from weft.cli.dashboard.running import print_board, watch

    where = Where(node, insecure, context)
    if json:
        print_board(where, pattern, interval)
    else:
        watch(where, pattern, interval)
