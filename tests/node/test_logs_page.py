"""docs/logs.md has every line that a node can log, with its level and its fields, and nothing else."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "logs.md").read_text()
LEVELS: Final = ("debug", "info", "warning", "error", "critical", "exception")
# Lines whose fields are put together elsewhere: those of an error, and of a table.
JOINED: Final = {
    "sequence_reused": {"differs", "kept_at", "producer", "sequence"},
    "disk_full": {"directory", "free", "need", "reserve"},
    "files_shared_out": {"admin", "allowed", "before", "ca", "connections", "grpc", "log"},
}


class Line(NamedTuple):
    event: str
    level: str
    fields: frozenset[str]
    place: str


@cache
def lines() -> tuple[Line, ...]:
    """What the source logs by a structured logger. Read when a test asks, not by every process that collects."""
    return tuple(_lines())


def _lines() -> Iterator[Line]:
    for path in sorted((ROOT / "src" / "weft").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                if not ast.unparse(node.func.value).lower().endswith("logger"):
                    continue
                place = f"{path.name}:{node.lineno}"
                event = _event(node.args[0], place)
                joined = JOINED.get(event, set()) if any(each.arg is None for each in node.keywords) else set()
                named = {each.arg for each in node.keywords if each.arg is not None}
                yield Line(event, node.func.attr, frozenset(named | joined), place)


def _event(name: ast.expr, place: str) -> str:
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        return f"{name.values[0].value!s}*"
    assert isinstance(name, ast.Constant) and isinstance(name.value, str), f"{place}: an event has a name"
    return name.value


def table(heading: str) -> dict[str, str]:
    """Every name of a table's first column, with the column after it."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    found: dict[str, str] = {}
    for names, second in re.findall(r"^\| (`.+?`) \| (.+?) \|", section, re.MULTILINE):
        for name in re.findall(r"`(.+?)`", names):
            assert name not in found, f"{name} is there twice"
            found[name] = second
    return found


@pytest.mark.req("OBS-01")
def test_every_line_is_on_the_page_with_its_level() -> None:
    levels: dict[str, set[str]] = defaultdict(set)
    for line in lines():
        levels[line.event].add(line.level)
    told = {event: set(text.split(", ")) for event, text in table("Events").items()}
    assert len(levels) > 50
    assert levels.keys() == told.keys(), levels.keys() ^ told.keys()
    assert not {event for event in levels if not levels[event] <= told[event]}


@pytest.mark.req("OBS-01")
def test_every_field_is_on_the_page_and_nothing_is_called_by_two_names() -> None:
    used = {name for line in lines() for name in line.fields} | {"node"}
    told = table("Fields")
    assert used == told.keys(), used ^ told.keys()
    assert not used & {"error", "err", "message", "msg", "host", "ip", "node_id", "path"}


def test_names_are_in_snake_case_and_no_line_hides_who_wrote_it() -> None:
    for line in lines():
        assert re.fullmatch(r"[a-z][a-z0-9_]*\*?", line.event), line.place
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in line.fields), line.place
        assert not line.fields & {"node", "event", "level", "timestamp"}, f"{line.place}: the logger has these"
