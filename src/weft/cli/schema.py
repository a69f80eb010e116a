"""``weft schema``: what the payloads of topics must be."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import ContextName, Insecure, Json, Nodes, Where, misused

app = typer.Typer(help="Schemas for the payloads of topics.", no_args_is_help=True)


class KindName(StrEnum):
    JSON = "json"
    DDL = "ddl"
    AVRO = "avro"


class WrittenKind(StrEnum):
    JSON = "json"
    DDL = "ddl"


class ModeName(StrEnum):
    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class RuleName(StrEnum):
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    NONE = "none"


Pattern = Annotated[str, typer.Argument(metavar="PATTERN", help="Topics: 'plant.*.temp'.", show_default=False)]
Kind = Annotated[
    KindName | None,
    typer.Option(help="The language of the schema.", show_default="by the file's ending: .json, .sql, .avsc"),
]
Last = Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Look at this many of the last events.")]
Events = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Events to look at, one JSON text a line; - is standard input.", show_default=False
    ),
]


@app.command("set")
def set_schema(
    pattern: Pattern,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="JSON Schema, SQL DDL or Avro; - is standard input.", show_default=False),
    ] = None,
    kind: Kind = None,
    mode: Annotated[
        ModeName | None,
        typer.Option(
            help="What to do with events that break it: ignore, count and log, or refuse them.", show_default="warn"
        ),
    ] = None,
    compatibility: Annotated[
        RuleName | None, typer.Option(help="Which changes a new version may make.", show_default="backward")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it, but set nothing.")] = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Set the schema of topics, a new version of it, or its mode and compatibility. Needs the right to administer."""
    from weft.cli.schema_work import set_schema_of

    if file is None and mode is None and compatibility is None:
        misused("give a FILE with the schema, or --mode or --compatibility to change those")
    how = {"mode": mode and mode.value, "compatibility": compatibility and compatibility.value, "dry_run": dry_run}
    set_schema_of(Where(node, insecure, context), pattern, file, kind and kind.value, how, json)


@app.command("ls")
@app.command("list", hidden=True)
def list_schemas(
    json: Json = False, node: Nodes = None, insecure: Insecure = False, context: ContextName = None
) -> None:
    """List the schemas of topics that you may read or publish."""
    from weft.cli.schema_work import show_schemas

    show_schemas(Where(node, insecure, context), json)


@app.command()
def show(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN",
            help="The schema's pattern; or a topic, for the schema that counts there.",
            show_default=False,
        ),
    ],
    version: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="This version.", show_default="the latest")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Only the schema itself, as it was set.")] = False,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Show a schema: its columns, versions, mode and compatibility."""
    from weft.cli.schema_work import show_schema

    show_schema(Where(node, insecure, context), pattern, version, text, json)


@app.command()
def check(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A schema; without it, the schemas of the topics.", show_default=False),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Look at the last events of these topics.", show_default=False)
    ] = None,
    events: Events = None,
    last: Last = 1000,
    kind: Kind = None,
    json: Json = False,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Check whether events fit a schema, and change nothing. Status 1 if one does not fit."""
    from weft.cli.schema_work import check_events, check_topics

    if (topic is None) == (events is None):
        misused("there is nothing to look at: give --topic PATTERN or --events FILE")
    if topic is not None:
        check_topics(Where(node, insecure, context), topic, file, kind and kind.value, last, json)
    elif file is None:
        misused("events of a file need the FILE of a schema")
    else:
        assert events is not None, "it is one or the other"
        check_events(file, kind and kind.value, events, json)


@app.command()
def infer(
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Topics: 'plant.*.temp'.", show_default=False)
    ] = None,
    events: Events = None,
    last: Last = 1000,
    kind: Annotated[WrittenKind, typer.Option(help="What to write it in.")] = WrittenKind.JSON,
    node: Nodes = None,
    insecure: Insecure = False,
    context: ContextName = None,
) -> None:
    """Print a schema that fits the last events of topics. Read it before you set it."""
    from weft.cli.schema_work import infer_of_events, infer_of_topics

    if (pattern is None) == (events is None):
        misused("there is nothing to learn from: give a PATTERN of topics, or --events FILE")
    if pattern is not None:
        infer_of_topics(Where(node, insecure, context), pattern, last, kind.value)
    else:
        assert events is not None, "it is one or the other"
        infer_of_events(events, kind.value)


@app.command()
def rm(pattern: Pattern, node: Nodes = None, insecure: Insecure = False, context: ContextName = None) -> None:
    """Remove the schema of a pattern, with all versions. Needs the right to administer."""
    from weft.cli.schema_work import remove_schema

    remove_schema(Where(node, insecure, context), pattern)
