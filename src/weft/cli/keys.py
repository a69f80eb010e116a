"""``weft keys``: API keys of a node's clients."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.console import err
from weft.cli.options import Json
from weft.cli.tables import human_time, print_json, print_table
from weft.security.api_keys import SALT_BYTES, SECRET_BYTES, KeyRecord
from weft.security.key_store import KeyRequest, create_key, read_keys, revoke_key
from weft.security.quota import parse_quota

app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The node's data directory.", show_default=False)]
Patterns = list[str] | None

US_PER_S = 1_000_000


@app.command()
def create(
    data: Data,
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Whose it is: keys of one name share what they own.", show_default=False)
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
            help="May use groups of this name, or that begin so: 'billing*'; may be given again.",
            show_default="no groups",
        ),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="May administer: groups of others, status, drain.")] = False,
    expires_in: Annotated[str | None, typer.Option(metavar="AGE", help="Like 90d, 12h.", show_default="never")] = None,
    quota: Annotated[
        Patterns,
        typer.Option(
            metavar="NAME=NUMBER",
            help="At most so many topics, groups, subscriptions, events_per_s, bytes_per_s; may be given again.",
            show_default="as the node is set",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once: only a hash of it is kept.

    Inboxes and what Spark jobs stage belong to the name: give a key that replaces another the same name, and everybody
    else another one.
    """
    now_s = time.time()
    others = [each.id for each in read_keys(data) if each.name == name]
    wanted = KeyRequest(
        name,
        tuple(publish or ()),
        tuple(subscribe or ()),
        admin,
        _expiry_s(expires_in, now_s),
        parse_quota(quota or ()),
        tuple(group or ()),
    )
    record, key = create_key(data, wanted, secrets.token_bytes(SECRET_BYTES + SALT_BYTES), now_s)
    if json:
        print_json({**_document(record), "key": key.reveal()})
    else:
        if others:
            err.print(f"{', '.join(others)} has this name too: what belongs to one belongs to all of them")
        err.print(f"key {record.id}, shown this once:")
        typer.echo(key.reveal())


@app.command("list")
def list_all(data: Data, json: Json = False) -> None:
    """List the keys and their rights."""
    found = read_keys(data)
    if json:
        print_json([_document(each) for each in found])
    elif found:
        headings = ("key", "name", "publish", "subscribe", "groups", "admin", "quota", "created", "expires")
        print_table(headings, [_row(each) for each in found], names=len(headings))
    else:
        err.print("no keys yet: weft keys create")


@app.command()
def revoke(data: Data, key: Annotated[str, typer.Argument(metavar="KEY", help="Its id: k3.")]) -> None:
    """Revoke a key. Nodes that use this directory refuse it within two seconds, on open streams as well."""
    gone = revoke_key(data, key)
    err.print(f"key {gone.id} is revoked")


def _expiry_s(text: str | None, now_s: float) -> int | None:
    if text is None:
        return None
    from weft.cli.log_input import parse_age_us

    return int(now_s) + parse_age_us(text) // US_PER_S


def _document(record: KeyRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "publish": record.publish,
        "subscribe": record.subscribe,
        "groups": record.groups,
        "admin": record.admin,
        "quota": {} if record.quota is None else record.quota.said(),
        "created": _time(record.created_s),
        "expires": None if record.expires_s is None else _time(record.expires_s),
    }


def _row(record: KeyRecord) -> tuple[str, ...]:
    return (
        record.id,
        record.name,
        ", ".join(record.publish),
        ", ".join(record.subscribe),
        _groups(record),
        "yes" if record.admin else "",
        _quota(record),
        _time(record.created_s),
        "never" if record.expires_s is None else _time(record.expires_s),
    )


def _groups(record: KeyRecord) -> str:
    """Who may administer may use all of them. A key that is older than these rights is judged by topics."""
    if record.admin:
        return "*"
    return "by topics" if record.groups is None else ", ".join(record.groups)


def _quota(record: KeyRecord) -> str:
    said = {} if record.quota is None else record.quota.said()
    return ", ".join(f"{name}={value}" for name, value in said.items())


def _time(unix_s: int) -> str:
    return human_time(unix_s * US_PER_S)
