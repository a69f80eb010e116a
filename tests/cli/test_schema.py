"""``weft schema`` against a real node (LAK-02)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Weft
from tests.up import RunningNode

pytestmark = pytest.mark.req("LAK-02")
DDL = "id BIGINT NOT NULL, temp DOUBLE\n"


def test_setting_showing_and_removing(weft: Weft, node: RunningNode, tmp_path: Path) -> None:
    file = tmp_path / "temp.sql"
    file.write_text(DDL)
    done = weft("schema", "set", "cli.s1.*", file, "--mode", "reject", *node.flags)
    assert done.out == "cli.s1.*: version 1 is set, mode reject, compatibility backward\n"
    listed = weft("schema", "ls", "--json", *node.flags).document
    (found,) = [each for each in listed if each["pattern"] == "cli.s1.*"]
    assert (found["version"], found["kind"], found["text"]) == (1, "ddl", DDL)
    assert "cli.s1.*" in weft("schema", "ls", *node.flags).out
    shown = weft("schema", "show", "cli.s1.*", *node.flags).out
    assert "mode reject" in shown and "BIGINT" in shown and "required, not null" in shown
    assert weft("schema", "show", "cli.s1.a", "--text", *node.flags).out == DDL, "by a topic that it counts for"
    assert weft("pub", "cli.s1.a", '{"id": 1}', *node.flags).status == 0
    refused = weft("pub", "cli.s1.a", '{"id": "x"}', *node.flags)
    assert refused.status == 1
    assert "the event breaks the schema of its topic: id: expected BIGINT, found text" in refused.err
    file.write_text("id STRING\n")
    broken = weft("schema", "set", "cli.s1.*", file, *node.flags)
    assert broken.status == 1 and "id: a reader of STRING cannot take BIGINT (backward: " in broken.err
    assert weft("schema", "set", "cli.s1.*", "--mode", "off", *node.flags).status == 0
    assert weft("pub", "cli.s1.a", '{"id": "x"}', *node.flags).status == 0
    assert weft("schema", "rm", "cli.s1.*", *node.flags).out == "cli.s1.* has no schema now\n"
    gone = weft("schema", "show", "cli.s1.*", *node.flags)
    assert gone.status == 1 and "no schema is set" in gone.err


def test_versions_are_kept(weft: Weft, node: RunningNode, tmp_path: Path) -> None:
    file = tmp_path / "temp.sql"
    for text in (DDL, "id BIGINT NOT NULL, temp DOUBLE, note STRING\n"):
        file.write_text(text)
        weft("schema", "set", "cli.s2", file, *node.flags)
    assert weft("schema", "show", "cli.s2", "--version", "1", "--text", *node.flags).out == DDL
    assert [
        each["number"] for each in weft("schema", "show", "cli.s2", "--json", *node.flags).document["versions"]
    ] == [1, 2]
    absent = weft("schema", "show", "cli.s2", "--version", "3", *node.flags)
    assert absent.status == 1 and "kept 1, 2" in absent.err


def test_learning_and_checking(weft: Weft, node: RunningNode, tmp_path: Path) -> None:
    for payload in ('{"id": 1, "temp": 20}', '{"id": 2, "temp": 20.5}', '{"id": "x"}'):
        weft("pub", "cli.s3", payload, *node.flags)
    assert weft("schema", "infer", "cli.s3", "--kind", "ddl", *node.flags).out == "id JSON, temp DOUBLE\n"
    learned = weft("schema", "infer", "cli.s3", *node.flags)
    assert json.loads(learned.out)["properties"]["temp"] == {"type": "number"} and "from 3 events" in learned.err
    file = tmp_path / "temp.sql"
    file.write_text(DDL)
    checked = weft("schema", "check", file, "--topic", "cli.s3", *node.flags)
    assert checked.status == 1 and "3 events, 1 break the schema" in checked.out
    assert "id: expected BIGINT, found text" in checked.out
    told = weft("schema", "check", file, "--topic", "cli.s3", "--json", *node.flags).document
    assert [each["field"] for each in told["faults"]] == ["id"] and told["events"] == 3
    none = weft("schema", "check", "--topic", "cli.s3", *node.flags)
    assert none.status == 1 and "none of these topics has a schema" in none.err


def test_events_of_a_file(weft: Weft, tmp_path: Path) -> None:
    schema, events = tmp_path / "temp.sql", tmp_path / "events.jsonl"
    schema.write_text(DDL)
    events.write_text('{"id": 1}\n\n{"temp": 2}\n')
    checked = weft("schema", "check", schema, "--events", events)
    assert checked.status == 1 and checked.out == "line 2: id: is required\n2 events, 1 break the schema\n"
    assert weft("schema", "check", schema, "--events", "-", stdin=b'{"id": 1}\n').status == 0
    assert weft("schema", "infer", "--events", events, "--kind", "ddl").out == "id BIGINT, temp BIGINT\n"


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (("set", "a.b"), 2, "give a FILE"),
        (("set", "a.b", "schema.txt"), 1, "--kind"),
        (("set", "a.b", "-"), 1, "needs --kind"),
        (("set", "a.b", "absent.sql"), 1, "cannot be read"),
        (("check",), 2, "there is nothing to look at"),
        (("check", "--events", "x"), 2, "need the FILE"),
        (("infer",), 2, "there is nothing to learn from"),
        (("set", "a.b", "-", "--kind", "ddl"), 1, "unknown type"),
        (("set", "a.b", "-", "--kind", "json"), 1, "no JSON"),
        (("set", "a.b", "-", "--kind", "json"), 1, "file -"),
    ],
)
def test_mistakes(weft: Weft, arguments: tuple[str, ...], status: int, reason: str) -> None:
    made = weft("schema", *arguments, stdin=b"id WHAT")
    assert made.status == status and reason in made.err
