"""``weft keys``: API keys of the mesh's clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

app = typer.Typer(help="Create, list, show and revoke API keys.", no_args_is_help=True)

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Work on a node's data directory instead, whether the node runs or not.",
        show_default=False,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Its id: k3f09a81c22d4e07b.", show_default=False)]
Patterns = list[str] | None


@app.command()
def create(
    name: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="The owner's name: keys of one name share what they own.", show_default=False
        ),
    ],
    publish: Annotated[
        Patterns, typer.Option(metavar="PATTERN", help="May publish there; may be given again.", show_default=False)
    ] = None,
    subscribe: Annotated[
        Patterns, typer.Option(metavar="PATTERN", help="May subscribe to it; may be given again.", show_default=False)
    ] = None,
    group: Annotated[
        Patterns,
        typer.Option(
            metavar="NAME",
            help="May use groups with this name, or beginning, like 'billing*'; may be given again.",
            show_default="no groups",
        ),
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="May administer: keys, groups of others, status, stopping a node.")
    ] = False,
    expires_in: Annotated[str | None, typer.Option(metavar="AGE", help="Like 90d, 12h.", show_default="never")] = None,
    quota: Annotated[
        Patterns,
        typer.Option(
            metavar="NAME=NUMBER",
            help="A limit for topics, groups, subscriptions, events_per_s or bytes_per_s; may be given again.",
            show_default="as the node is set",
        ),
    ] = None,
    data: Data = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Make a key and print it. It is shown only now: nodes keep only its hash. All nodes know it within seconds.

    Inboxes and rows staged by Spark jobs belong to the key's name: give a replacement key the same name, and different
    people different names.
    """
    from weft.cli.keys_work import WantedKey, keys_of

    wanted = WantedKey(
        name,
        tuple(publish or ()),
        tuple(subscribe or ()),
        admin,
        expires_in,
        tuple(quota or ()),
        tuple(group or ()),
    )
    keys_of(data, Where(node, insecure, context)).create(wanted, json)


@app.command("list")
@app.command("ls", hidden=True)
def list_all(
    data: Data = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """List the keys and their rights. ``ls`` is the same."""
    from weft.cli.keys_work import keys_of

    keys_of(data, Where(node, insecure, context)).show_all(json)


@app.command()
def show(
    key: Key,
    data: Data = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Show a key: its rights, what it may use and has used at the node, who made it and when."""
    from weft.cli.keys_work import keys_of

    keys_of(data, Where(node, insecure, context)).show(key, json)


@app.command()
def revoke(
    key: Key,
    data: Data = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Revoke a key, for good. All nodes refuse it within seconds, on open streams as well."""
    from weft.cli.keys_work import keys_of

    keys_of(data, Where(node, insecure, context)).revoke(key, json)
