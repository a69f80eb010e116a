"""``weft kv``: buckets of keys and values."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where

app = typer.Typer(help="Buckets of keys and values.", no_args_is_help=True)

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", show_default=False)]
Key = Annotated[str, typer.Argument(metavar="KEY", show_default=False)]
Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="Keys: user.*.name, or '>' for all.")]
IfRevision = Annotated[
    str | None,
    typer.Option(
        "--if-revision",
        metavar="REVISION|absent",
        help="Only if the key is at this revision. Needs a bucket with an owner.",
        show_default=False,
    ),
]


@app.command()
def get(
    bucket: Bucket,
    key: Key,
    at_least: Annotated[
        str | None,
        typer.Option(
            "--at-least", metavar="REVISION", help="Wait until the node has this revision.", show_default=False
        ),
    ] = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Print the value of a key. Status 1 if it has none."""
    from weft.cli.kv_work import get_value

    get_value(Where(node, insecure, context), bucket, key, at_least, json)


@app.command()
def put(
    bucket: Bucket,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="- reads it from standard input.", show_default=False)],
    ttl: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds until the value expires.", show_default="it stays")
    ] = None,
    if_revision: IfRevision = None,
    copies: Annotated[int, typer.Option(min=0, metavar="N", help="How many nodes must have it.", show_default="1")] = 0,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Write a value, and print its revision."""
    from weft.cli.kv_work import put_value

    put_value(Where(node, insecure, context), bucket, key, value, ttl, if_revision, copies, json)


@app.command("del")
def delete(
    bucket: Bucket,
    key: Key,
    if_revision: IfRevision = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Delete a key, and print the revision of that."""
    from weft.cli.kv_work import delete_key

    delete_key(Where(node, insecure, context), bucket, key, if_revision, json)


@app.command()
def ls(
    bucket: Bucket,
    pattern: Pattern = ">",
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """List keys with their values."""
    from weft.cli.kv_work import list_keys

    list_keys(Where(node, insecure, context), bucket, pattern, json)


@app.command()
def watch(
    bucket: Bucket,
    pattern: Pattern = ">",
    only_new: Annotated[bool, typer.Option("--only-new", help="Leave out the present values.")] = False,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after this many changes.", show_default="endless")
    ] = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Print what keys have, and then every change as it comes."""
    from weft.cli.kv_work import watch_keys

    watch_keys(Where(node, insecure, context), bucket, pattern, only_new, count, json)


@app.command()
def history(
    bucket: Bucket,
    key: Key,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """List the last writings of a key, the latest first."""
    from weft.cli.kv_work import show_history

    show_history(Where(node, insecure, context), bucket, key, json)


@app.command()
def buckets(json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """List the buckets that you may read."""
    from weft.cli.kv_work import show_buckets

    show_buckets(Where(node, insecure, context), json)


@app.command()
def configure(
    bucket: Bucket,
    owner: Annotated[
        str, typer.Option(metavar="NODE", help="The one node that takes writes.", show_default="every node does")
    ] = "",
    history: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Revisions kept of each key.")] = 5,
    force: Annotated[bool, typer.Option("--force", help="Take over from an owner that is lost.")] = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Give a bucket an owner, or none, and a length of its history. Needs a key with the right to administer."""
    from weft.cli.kv_work import configure_bucket

    configure_bucket(Where(node, insecure, context), bucket, owner, history, force)
