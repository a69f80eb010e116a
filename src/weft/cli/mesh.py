"""Commands that ask a node: ``topics``, ``peers``, ``lag``, ``status``, ``console``, ``top`` and others."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

Group = Annotated[str, typer.Argument(metavar="GROUP", show_default="all groups")]


def topics(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Topics: plant.*.temp, or '>' for all.")] = ">",
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """List the topics that the node has events of."""
    from weft.cli.mesh_work import show_topics

    show_topics(Where(node, insecure, context), pattern, json)


def peers(json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """List the nodes of the mesh as this node knows them, and its links."""
    from weft.cli.mesh_work import show_peers

    show_peers(Where(node, insecure, context), json)


def lag(
    group: Group = "",
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Show how far behind each group is in each stream, in events and in seconds."""
    from weft.cli.mesh_work import show_lag

    show_lag(Where(node, insecure, context), group, json)


def explain(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    origin: Annotated[
        str, typer.Option(metavar="NODE", help="As if it were published at this node.", show_default="the asked node")
    ] = "",
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Say who would get an event of a topic, over which path, and why."""
    from weft.cli.mesh_work import show_explanation

    show_explanation(Where(node, insecure, context), topic, origin, json)


def trace(
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="TOPIC@ORIGIN/PARTITION:eEPOCH:OFFSET.", show_default=False)
    ],
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Show the hops that one event took, with times. Asks every node; no collector is needed."""
    from weft.cli.trace_work import show_trace

    show_trace(Where(node, insecure, context), event, json)


def console(
    open_it: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Say where a node's console is, and how to sign in."""
    from weft.cli.mesh_work import show_console

    show_console(Where(node, insecure, context), open_it)


def status(json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """Show how a node is."""
    from weft.cli.mesh_work import show_status

    show_status(Where(node, insecure, context), json)


def leave(node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """Have a node leave the mesh and stop, as SIGTERM does. Needs a key with the right to administer."""
    from weft.cli.mesh_work import ask_to_leave

    ask_to_leave(Where(node, insecure, context))


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
