"""What ``weft schema`` does: calls of the SDK, and how schemas and faults are printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err, out
from weft.cli.options import Where
from weft.cli.tables import counted, print_json, print_table
from weft.client import BadRequest, Client, SchemaVersion, TopicSchema
from weft.errors import UsageError
from weft.limits import MIB
from weft.model import BadTopic, parse_topic
from weft.schema import Fault, Inferred, Kind, Schema, find_faults, infer, kind_of_file, parse_schema
from weft.schema.ddl import as_ddl
from weft.schema.values import TEXT_BYTES_MAX, BadSchema
from weft.visible import visible

STDIN: Final = Path("-")
EVENTS_BYTES_MAX: Final = 256 * MIB  # of a file of events: it is read whole
FAULTS_SHOWN_MAX: Final = 20  # of events that break a schema; all of them with --json


def set_schema_of(
    where: Where, pattern: str, file: Path | None, kind: str | None, how: Mapping[str, Any], json: bool
) -> None:
    schema = None if file is None else _read_schema(file, kind)
    found = with_client(where, lambda client: client.schemas.set(pattern, schema, **how))
    if json:
        print_json(_document(found))
        return
    done = "would be" if how["dry_run"] else "is"
    out.print(
        f"{escape(visible(found.pattern))}: version {found.version} {done} set, mode {escape(found.mode)}, "
        f"compatibility {escape(found.compatibility)}",
        soft_wrap=True,
    )
    if found.mode == "warn":
        err.print("events that break it are counted and logged, not refused: --mode reject refuses them", style="dim")


def show_schemas(where: Where, json: bool) -> None:
    found = with_client(where, lambda client: client.schemas.list())
    if json:
        print_json([_document(each) for each in found])
    elif found:
        rows = [
            (visible(each.pattern), each.mode, each.compatibility, each.latest.kind, str(each.version), _columns(each))
            for each in found
        ]
        print_table(("pattern", "mode", "compatibility", "kind", "version", "columns"), rows, names=4)
    else:
        err.print("no topic has a schema")


def show_schema(where: Where, pattern: str, version: int | None, text: bool, json: bool) -> None:
    found = with_client(where, lambda client: _find(client, pattern))
    wanted = found.latest if version is None else next((v for v in found.versions if v.number == version), None)
    if wanted is None:
        kept = ", ".join(str(each.number) for each in found.versions)
        raise UsageError(f"there is no version {version} of the schema of {found.pattern}", kept=kept)
    if json:
        print_json(_document(found) | {"versions": [_version_document(each) for each in found.versions]})
    elif text:
        sys.stdout.write(wanted.text if wanted.text.endswith("\n") else f"{wanted.text}\n")
    else:
        _print_schema(found, wanted)


async def _find(client: Client, name: str) -> TopicSchema:
    """The schema set for exactly this pattern, else the one that applies to the topic of that name."""
    try:
        return await client.schemas.get(name)
    except BadRequest:
        try:
            found = await client.schemas.of_topic(parse_topic(name))
        except BadTopic:
            found = None
        if found is None:
            raise
        return found


def _print_schema(found: TopicSchema, wanted: SchemaVersion) -> None:
    out.print(f"[bold]{escape(visible(found.pattern))}[/bold]", soft_wrap=True)
    out.print(f"mode {escape(found.mode)}, compatibility {escape(found.compatibility)}")
    for each in found.versions:
        mark = "*" if each is wanted else " "
        set_by = f"{each.at:%Y-%m-%dT%H:%M:%SZ} by {visible(each.by)}"
        out.print(f"{mark} version {each.number}, {escape(each.kind)}, set {escape(set_by)}", soft_wrap=True)
    schema = wanted.parse()
    rows = [(visible(each.name), str(each.type), _needed(schema, at)) for at, each in enumerate(schema.columns)]
    print_table(("column", "type", ""), rows, names=3)
    if schema.closed and schema.kind is not Kind.AVRO:
        out.print("no other fields", style="dim")


def _needed(schema: Schema, at: int) -> str:
    column = schema.columns[at]
    words = ["required"] if column.required else []
    return ", ".join([*words, *([] if column.shape.nullable else ["not null"])])


def _columns(found: TopicSchema) -> str:
    try:
        return str(len(found.latest.parse().columns))
    except UsageError:  # of a later version of weft
        return "?"


def remove_schema(where: Where, pattern: str) -> None:
    with_client(where, lambda client: client.schemas.remove(pattern))
    out.print(f"{escape(visible(pattern))} has no schema now", soft_wrap=True)


# --- looking at events -----------------------------------------------------------------------------------------------


def check_topics(where: Where, pattern: str, file: Path | None, kind: str | None, last: int, json: bool) -> None:
    schema = None if file is None else _read_schema(file, kind)
    found = with_client(where, lambda client: client.schemas.check(pattern, schema, last=last))
    for address, reason in found.unreached.items():
        err.print(f"not asked: {escape(address)}: {escape(visible(reason))}", soft_wrap=True)
    if found.events and not found.checked and schema is None:
        raise UsageError("none of these topics has a schema: give the FILE of one", pattern=pattern)
    _tell_faults([(str(event.id), fault) for event, fault in found.faults], found.checked, json)


def check_events(file: Path, kind: str | None, events: Path, json: bool) -> None:
    schema = _read_schema(file, kind)
    payloads = _read_events(events, is_text=schema.kind is not Kind.AVRO)
    faults = find_faults(schema, payloads)
    _tell_faults([(f"line {at + 1}", fault) for at, fault in faults.items()], len(payloads), json)


def _tell_faults(faults: Sequence[tuple[str, Fault]], checked: int, json: bool) -> None:
    if json:
        told = [{"event": name, "field": fault.field, "reason": fault.reason} for name, fault in faults]
        print_json({"events": checked, "faults": told})
    else:
        for name, fault in faults[:FAULTS_SHOWN_MAX]:
            out.print(f"{escape(visible(name))}: {escape(visible(str(fault)))}", soft_wrap=True)
        if len(faults) > FAULTS_SHOWN_MAX:
            out.print(f"and {len(faults) - FAULTS_SHOWN_MAX:,} more")
        out.print(f"{counted(checked, 'event')}, {len(faults):,} break the schema")
    if faults:
        raise SystemExit(1)


def infer_of_topics(where: Where, pattern: str, last: int, kind: str) -> None:
    _tell_inferred(with_client(where, lambda client: client.schemas.infer(pattern, last=last)), kind)


def infer_of_events(events: Path, kind: str) -> None:
    _tell_inferred(infer(_read_events(events, is_text=True)), kind)


def _tell_inferred(inferred: Inferred, kind: str) -> None:
    schema = inferred.schema
    sys.stdout.write(f"{as_ddl(schema) if kind == Kind.DDL else schema.text}\n")
    left_out = f", {inferred.unread:,} that are not JSON objects left out" if inferred.unread else ""
    err.print(f"from {counted(inferred.events, 'event')}{left_out}", style="dim")


# --- files -----------------------------------------------------------------------------------------------------------


def _read_schema(file: Path, kind: str | None) -> Schema:
    if kind is None and file == STDIN:
        raise UsageError("a schema from standard input needs --kind json, ddl or avro")
    known = Kind(kind) if kind is not None else kind_of_file(file.name)
    data = _read(file, TEXT_BYTES_MAX)
    try:
        return parse_schema(known, data.decode())
    except UnicodeDecodeError:
        raise BadSchema("the schema is not UTF-8", file=file) from None
    except BadSchema as error:
        raise BadSchema(error.what, **error.facts, file=file) from None


def _read_events(file: Path, *, is_text: bool) -> list[bytes]:
    data = _read(file, EVENTS_BYTES_MAX)
    return [line for line in data.split(b"\n") if line.strip()] if is_text else [data]


def _read(file: Path, bytes_max: int) -> bytes:
    try:
        if file == STDIN:
            with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as opened:
                data = opened.read(bytes_max + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(bytes_max + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > bytes_max:
        raise UsageError("the file is too large", file=file, limit=bytes_max)
    return data


def _document(found: TopicSchema) -> dict[str, Any]:
    return {
        "pattern": found.pattern,
        "mode": found.mode,
        "compatibility": found.compatibility,
        "version": found.version,
        **_version_document(found.latest),
    }


def _version_document(version: SchemaVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "kind": version.kind,
        "text": version.text,
        "at": version.at.isoformat(),
        "by": version.by,
    }
