"""The rooms of ``src/weft`` and who imports whom, read from the sources."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final

from tools.pictures.svg import Arrow, Box, Picture

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "weft"
PURE_CONTRACT: Final = "Pure rooms have no clock, no chance, no sockets"
COLUMNS: Final = 7.0

Graph = Mapping[str, frozenset[str]]
Places = dict[str, tuple[float, float]]
Line = tuple[tuple[float, float], tuple[float, float]]


def rooms_picture() -> Picture:
    """One row per level: a room stands above everything that it imports. Of arrows, those that follow from others
    are left out; so are those to the single files at the bottom, which nearly everybody imports."""
    graph = imports()
    levels = levels_of(graph)
    places = placed(graph, levels)
    height = max(levels.values()) + 1
    boxes = [Box(room, (room,), at, "pure" if room in pure_rooms() else "plain") for room, at in places.items()]
    files = sorted(path.name for path in SOURCE.glob("*.py") if path.stem not in ("__init__", "__main__", "sync"))
    bottom = Box("files", ("single files: " + ", ".join(files),), (COLUMNS / 2, height + 0.4), "outside")
    arrows = tuple(
        Arrow(room, target) for room, targets in sorted(reduced(graph).items()) for target in sorted(targets)
    )
    title = "The rooms of Weft: each stands above the rooms that it imports. Green: pure, by contract"
    return Picture(title, (150, 62), (COLUMNS, height + 0.9), (*boxes, bottom), arrows)


@cache
def imports() -> Graph:
    """What each room imports, of other rooms."""
    rooms = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    found: dict[str, frozenset[str]] = {}
    for room in rooms:
        named = {
            name.split(".")[1]
            for path in sorted((SOURCE / room).rglob("*.py"))
            for name in imported(path.read_text())
            if name.startswith("weft.")
        }
        found[room] = frozenset(named & {*rooms} - {room})
    return found


def imported(source: str) -> frozenset[str]:
    """Modules that a file imports, wherever in it, as dotted names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return frozenset(found)


def levels_of(graph: Graph) -> dict[str, int]:
    """How far each room stands above the ground: one more than the highest of those that it imports."""

    @cache
    def level(room: str) -> int:
        return max((level(target) + 1 for target in graph[room]), default=0)

    return {room: level(room) for room in graph}


def reduced(graph: Graph) -> dict[str, frozenset[str]]:
    """Without arrows that follow from others."""

    @cache
    def below(room: str) -> frozenset[str]:
        return graph[room].union(*(below(target) for target in graph[room]))

    return {
        room: frozenset(each for each in targets if not any(each in below(other) for other in targets))
        for room, targets in graph.items()
    }


@cache
def pure_rooms() -> frozenset[str]:
    """The rooms that an import contract keeps pure as a whole; ``core`` has a contract of its own."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (each for each in contracts if each["name"] == PURE_CONTRACT)
    return frozenset(name.split(".")[1] for name in found["source_modules"] if name.count(".") == 1) | {"core"}


def placed(graph: Graph, levels: Mapping[str, int]) -> Places:
    """A row per level. Rooms change their columns for as long as that makes the picture clearer."""
    arrows = [(room, target) for room, targets in sorted(reduced(graph).items()) for target in sorted(targets)]
    top = max(levels.values())
    rows = [sorted(room for room in levels if levels[room] == level) for level in range(top, -1, -1)]
    places = {
        room: (round(COLUMNS * (index + 0.5) / len(row) - 0.5) + 0.5, number + 0.4)
        for number, row in enumerate(rows)
        for index, room in enumerate(row)
    }
    best = unclear(places, arrows)
    is_better = True
    while is_better:
        is_better = False
        for row in rows:
            for room in row:
                for column in range(int(COLUMNS)):
                    tried = moved(places, row, room, column + 0.5)
                    cost = unclear(tried, arrows)
                    if cost < best - 1e-9:
                        places, best, is_better = tried, cost, True
    return places


def moved(places: Places, row: Sequence[str], room: str, column: float) -> Places:
    """One room at a column; whoever was there takes its place."""
    x, y = places[room]
    others = {other: (x, y) for other in row if places[other][0] == column}
    return {**places, **others, room: (column, y)}


def unclear(places: Places, arrows: Sequence[tuple[str, str]]) -> float:
    """How hard the picture is to read: arrows through rooms, then arrows across each other, then their lengths."""
    lines = [(places[one], places[other]) for one, other in arrows]
    through = sum(passes(line, at) for line in lines for at in places.values())
    across = sum(cross(one, other) for one, other in combinations(lines, 2))
    return 100 * through + 4 * across + sum(abs(one[0] - other[0]) for one, other in lines)


def passes(line: Line, room: tuple[float, float]) -> bool:
    """Whether an arrow runs through a room between its ends."""
    (x1, y1), (x2, y2) = line
    if not y1 < room[1] < y2:
        return False
    x = x1 + (x2 - x1) * (room[1] - y1) / (y2 - y1)
    return abs(x - room[0]) < 0.5


def cross(one: Line, other: Line) -> bool:
    def side(at: tuple[float, float], line: Line) -> float:
        (x1, y1), (x2, y2) = line
        return (x2 - x1) * (at[1] - y1) - (y2 - y1) * (at[0] - x1)

    return side(one[0], other) * side(one[1], other) < 0 and side(other[0], one) * side(other[1], one) < 0
