"""What ``weft kv`` does: calls of the SDK, and how entries are printed."""

from __future__ import annotations

import os
import sys
from base64 import b64encode
from typing import Any, Final

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err, out
from weft.cli.options import Where
from weft.cli.tables import print_json, print_table
from weft.client import ABSENT, Client, KvEntry
from weft.client.kv import Expected
from weft.errors import UsageError
from weft.model.key_value import VALUE_BYTES_MAX, Revision, parse_revision
from weft.visible import visible

STDIN: Final = "-"
VALUE_CHARS_SHOWN: Final = 80  # of a value in a table; all of it with --json, or by get


def get_value(where: Where, bucket: str, key: str, at_least: str | None, json: bool) -> None:
    found = with_client(where, lambda client: client.kv(bucket).get(key, at_least=at_least))
    if found is None:
        raise UsageError(f"{key} has no value in bucket {bucket}")
    if json:
        print_json(_document(found))
    else:
        sys.stdout.buffer.write(found.value)
        if sys.stdout.isatty():
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


def put_value(
    where: Where,
    bucket: str,
    key: str,
    value: str,
    ttl_s: float | None,
    if_revision: str | None,
    copies: int,
    json: bool,
) -> None:
    data = _standard_input() if value == STDIN else value.encode()
    expected = _expected(if_revision)
    revision = with_client(
        where, lambda client: client.kv(bucket).put(key, data, ttl=ttl_s, if_revision=expected, copies=copies)
    )
    _print_revision(bucket, key, revision, json)


def delete_key(where: Where, bucket: str, key: str, if_revision: str | None, json: bool) -> None:
    expected = _expected(if_revision)
    revision = with_client(where, lambda client: client.kv(bucket).delete(key, if_revision=expected))
    _print_revision(bucket, key, revision, json)


def list_keys(where: Where, bucket: str, pattern: str, json: bool) -> None:
    found = with_client(where, lambda client: client.kv(bucket).entries(pattern))
    if json:
        print_json([_document(each) for each in found])
    elif found:
        _print_entries(found)
    else:
        err.print(escape(f"no key of bucket {bucket} matches {pattern}"))


def show_history(where: Where, bucket: str, key: str, json: bool) -> None:
    found = with_client(where, lambda client: client.kv(bucket).history(key))
    if json:
        print_json([_document(each) for each in found])
    elif found:
        _print_entries(found)
    else:
        err.print(escape(f"{key} was never written in bucket {bucket}, or is long gone"))


def watch_keys(where: Where, bucket: str, pattern: str, only_new: bool, count: int | None, json: bool) -> None:
    async def follow(client: Client) -> None:
        left = count
        async with client.kv(bucket).watch(pattern, snapshot=not only_new) as changes:
            async for change in changes:
                if json:
                    print_json(_document(change))
                else:
                    line = "  ".join((change.key, change.state, str(change.revision), _shown(change.value)))
                    sys.stdout.write(visible(line.rstrip()) + "\n")
                sys.stdout.flush()
                left = None if left is None else left - 1
                if left == 0:
                    return

    with_client(where, follow)


def show_buckets(where: Where, json: bool) -> None:
    found = with_client(where, lambda client: client.buckets())
    if json:
        print_json(
            [{"bucket": e.bucket, "keys": e.keys, "owner": e.owner or None, "history": e.history} for e in found]
        )
    elif found:
        rows = [(each.bucket, each.owner or "every node", f"{each.keys:,}", str(each.history)) for each in found]
        print_table(("bucket", "takes writes", "keys", "history"), rows, names=2)
    else:
        err.print("there are no buckets that you may read")


def configure_bucket(where: Where, bucket: str, owner: str, history: int, force: bool) -> None:
    with_client(where, lambda client: client.kv(bucket).configure(owner=owner, history=history, force=force))
    who = f"node {owner}" if owner else "every node"
    out.print(escape(f"bucket {bucket}: {who} takes writes, {history} revisions of each key are kept"))


def _standard_input() -> bytes:
    """Reads one byte more than a value may have, so that a value that is too long is refused and not cut."""
    with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as file:
        return file.read(VALUE_BYTES_MAX + 1)


def _expected(text: str | None) -> Expected | None:
    if text is None or text == ABSENT.value:
        return None if text is None else ABSENT
    return parse_revision(text)


def _print_revision(bucket: str, key: str, revision: Revision, json: bool) -> None:
    if json:
        print_json({"bucket": bucket, "key": key, "revision": str(revision)})
    else:
        sys.stdout.write(f"{revision}\n")


def _print_entries(found: list[KvEntry]) -> None:
    rows = [(each.key, each.state, _shown(each.value), _expiry(each) or "", str(each.revision)) for each in found]
    print_table(("key", "state", "value", "expires", "revision"), rows, names=5)


def _document(entry: KvEntry) -> dict[str, Any]:
    return {
        "bucket": entry.bucket,
        "key": entry.key,
        "state": entry.state,
        **({"value": None} if entry.state != "put" else _text_or_base64(entry.value)),
        "revision": str(entry.revision),
        "author": entry.author,
        "expires": _expiry(entry),
    }


def _expiry(entry: KvEntry) -> str | None:
    return None if entry.expires is None else entry.expires.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text_or_base64(value: bytes) -> dict[str, str]:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": b64encode(value).decode()}


def _shown(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = f"0x{value[:VALUE_CHARS_SHOWN].hex()}"
    return text if len(text) <= VALUE_CHARS_SHOWN else f"{text[:VALUE_CHARS_SHOWN]}... {len(value):,} bytes"
