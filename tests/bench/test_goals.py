"""Whatever a benchmark has for a goal stands in docs/benchmarks.md, with a figure that was measured and a verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
MODULES = sorted((ROOT / "bench").glob("*.py"))
# Which argument is the goal when it goes without its name: Figure(name, value, unit, goal), say.
GOAL_ARGUMENT = {"Figure": 3, "Case": 4, "Run": 3}
NUMBER = re.compile(r"([0-9][0-9,]*(?:\.[0-9]+)?) ?([kM]?)\b")
SCALE = {"": 1.0, "k": 1e3, "M": 1e6}


# --- goals, as the modules have them -----------------------------------------------------------------------------


def goals_in(source: str) -> list[float]:
    """The numbers that are set or passed as something called goal, goals, GOAL_..."""
    values = [value for node in ast.walk(ast.parse(source)) for value in _goal_values(node)]
    return [number for value in values for number in _numbers(value)]


def _goal_values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.keyword(arg=str(name), value=value) if _is_goal(name):
            yield value
        case ast.Assign(targets=targets, value=value) if any(_is_goal(ast.unparse(each)) for each in targets):
            yield value
        case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_goal(ast.unparse(target)):
            yield value
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in GOAL_ARGUMENT:
            yield from arguments[GOAL_ARGUMENT[name] : GOAL_ARGUMENT[name] + 1]


def _is_goal(name: str) -> bool:
    return name.lower().lstrip("(").startswith("goal")


def _numbers(value: ast.expr) -> Iterator[float]:
    """Those in it, but for those that only decide whether there is a goal."""
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield float(number)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_numbers(body), *_numbers(orelse))
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Dict(values=values):
            yield from (number for each in values for number in _numbers(each))
        case ast.BinOp(left=left, right=right):
            yield from (*_numbers(left), *_numbers(right))
        case _:
            pass


# --- figures, as the page has them -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """``goal`` is None for a limit of the machine, which others are measured by."""

    name: str
    figure: float
    goal: float | None
    goal_cell: str


def rows_by_benchmark(page: str) -> dict[str, list[Row]]:
    """The rows with a goal or a limit, by the module that a heading or the row itself names."""
    found: dict[str, list[Row]] = {}
    benchmark, header = "", [""]
    for line in page.splitlines():
        if named := re.search(r"bench\.(\w+)", line):
            benchmark = named[1]
            found.setdefault(benchmark, [])
        if not line.startswith("|"):
            header = [""]
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if header == [""]:
            header = cells
        elif "goal" in header and (row := _row(cells, header)):
            found[benchmark].append(row)
    return found


def _row(cells: Sequence[str], header: Sequence[str]) -> Row | None:
    """None if it has no goal. The figure is the ratio, if there is one; else it is in the second column, or in that
    which says what was seen."""
    cell = cells[header.index("goal")]
    name = header.index("seen") - 1 if "seen" in header else 0
    ratio = cells[header.index("ratio")] if "ratio" in header else ""
    if not cell or not (figure := NUMBER.search(ratio or cells[name + 1])):
        return None
    goal = NUMBER.search(cell)
    return Row(cells[name], _value(figure), goal and _value(goal), cell)


def _value(found: re.Match[str]) -> float:
    return float(found[1].replace(",", "")) * SCALE[found[2]]


def missing_in(goals: Sequence[float], rows: Sequence[Row]) -> list[float]:
    """The goals that no row has; each row stands for one goal."""
    limits = [row.figure for row in rows if row.goal is None]
    left = [row.goal for row in rows if row.goal is not None]
    missing: list[float] = []
    for goal in goals:
        shapes = (goal, 100 * goal, *(goal * limit for limit in limits))  # as it is, in percent, times a limit
        taken = next((each for shape in shapes for each in left if each == pytest.approx(shape, rel=0.01)), None)
        if taken is None:
            missing.append(goal)
        else:
            left.remove(taken)
    return missing


# --- tests -------------------------------------------------------------------------------------------------------


def benchmark_of(module: str, known: Sequence[str]) -> str:
    """The benchmark that a module is, or is a part of: log_append is of log."""
    whole = [each for each in known if module == each or module.startswith(f"{each}_")]
    return max(whole, key=len, default=module)


@pytest.mark.req("NFR-01")
def test_every_goal_is_on_the_page_with_a_figure() -> None:
    rows = rows_by_benchmark(PAGE.read_text())
    goals: dict[str, list[float]] = {}
    for module in MODULES:
        goals.setdefault(benchmark_of(module.stem, list(rows)), []).extend(goals_in(module.read_text()))
    missing = {name: left for name, each in goals.items() if (left := missing_in(each, rows.get(name, [])))}
    assert not missing, f"goals without a figure in docs/benchmarks.md: {missing}"
    for name, each in rows.items():
        assert goals.get(name) or all(row.goal is None for row in each), f"the goals of {name} are not in its module"


@pytest.mark.req("NFR-01")
def test_every_goal_on_the_page_says_whether_it_was_reached_and_that_is_so() -> None:
    for name, rows in rows_by_benchmark(PAGE.read_text()).items():
        for row in rows:
            if row.goal is None:
                continue
            verdicts = [word for word in ("reached", "MISSED") if word in row.goal_cell]
            assert len(verdicts) == 1, f"{name}: {row}"
            if "%" not in row.goal_cell:  # a share of something else in the row
                reached = row.figure <= row.goal if row.goal_cell.startswith("≤") else row.figure >= row.goal
                assert verdicts == ["reached" if reached else "MISSED"], f"{name}: {row}"


NEW = """
GOAL_OF_BEST = 0.9
def figures(size):
    goal = 7_000 if size == 1000 else None
    goals = {"a": 1e6}
    return [Figure("x", 1, "events/s", 40.0), Figure("y", 2, "events/s", goal=GOAL_OF_BEST * size)]
"""
TABLE = """
## New (`python -m bench.new`)

| new | | goal | |
|---|---|---|---|
| the machine | 14.0 k events/s | limit |  |
| a | 1.20 M events/s | ≥ 1.00 M reached |  |
| b | 6,000 events/s | ≥ 7,000 MISSED |  |
| x | 41 events/s | ≥ 40 reached |  |
"""


COMPARED = """
## Compared (`python -m bench.compared`)

| compared | ours | theirs | ratio | goal |
|---|---|---|---|---|
| rate | 60 /s | 20 /s | 3 times | ≥ 4 times MISSED |
| memory | 90 MB | 10 MB |  | ≤ 100 MB reached |
"""


def test_a_goal_beside_a_ratio_is_the_goal_of_the_ratio() -> None:
    rows = rows_by_benchmark(COMPARED)["compared"]
    assert [(row.figure, row.goal) for row in rows] == [(3, 4), (90, 100)]


def test_a_goal_that_nobody_wrote_down_is_found() -> None:
    rows = rows_by_benchmark(TABLE)["new"]
    assert sorted(goals_in(NEW)) == [0.9, 40, 7_000, 1e6]
    assert missing_in(goals_in(NEW), rows) == [0.9]
    share = Row("y", 91, 90, "≥ 90 reached")
    assert missing_in(goals_in(NEW), [*rows, share]) == []
    assert missing_in([40, 40], rows) == [40], "one row is not the figure of two goals"
