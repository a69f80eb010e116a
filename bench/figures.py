"""Figures that are not all rates: latencies, ratios and sizes, each beside its goal. A table, JSON or Markdown."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

Format = Literal["table", "json", "markdown"]
WIDTH = 170
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Figure:
    """``goal`` is a floor, or a ceiling if ``ceiling`` is set. A limit of the machine itself has ``limit`` set."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    ceiling: bool = False
    limit: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.ceiling else self.value >= self.goal

    @property
    def shown(self) -> str:
        return f"{human(self.value)} {self.unit}"

    @property
    def goal_shown(self) -> str:
        if self.goal is None:
            return "limit" if self.limit else ""
        sign, verdict = "≤" if self.ceiling else "≥", "reached" if self.reached else "MISSED"
        return f"{sign} {human(self.goal)} {verdict}"


@dataclass(frozen=True)
class Comparison:
    """One figure of several systems. The goal is for ``ours[0]``: a ratio to the best of the others, or the figure."""

    name: str
    unit: str
    ours: Sequence[str]
    values: Mapping[str, float]  # by system; who is missing has no such figure
    ceiling: bool = False
    goal: float | None = None
    is_ratio: bool = True
    note: str = ""

    @property
    def best(self) -> float | None:
        others = [value for system, value in self.values.items() if system not in self.ours]
        if not others:
            return None
        return min(others) if self.ceiling else max(others)

    def ratio(self, system: str) -> float | None:
        value, best = self.values.get(system), self.best
        return value / best if value is not None and best else None

    @property
    def reached(self) -> bool | None:
        value = self.ratio(self.ours[0]) if self.is_ratio else self.values.get(self.ours[0])
        if self.goal is None or value is None:
            return None
        return value <= self.goal if self.ceiling else value >= self.goal

    def shown(self, system: str) -> str:
        value = self.values.get(system)
        return "" if value is None else f"{human(value)} {self.unit}"

    @property
    def ratios_shown(self) -> str:
        """Ours[0] first; that of the others of ours in brackets."""
        ratios = {system: self.ratio(system) for system in self.ours if self.is_ratio}
        first, *more = [f"{human(ratio)} {TIMES}" for ratio in ratios.values() if ratio is not None] or [""]
        return f"{first} ({', '.join(more)})" if more else first

    @property
    def goal_shown(self) -> str:
        if self.goal is None:
            return ""
        sign, unit = "≤" if self.ceiling else "≥", TIMES if self.is_ratio else self.unit
        verdict = {True: " reached", False: " MISSED", None: ""}[self.reached]
        return f"{sign} {human(self.goal)} {unit}{verdict}"


def add_formats(parser: argparse.ArgumentParser) -> None:
    """``format`` is a Format afterwards."""
    parser.add_argument("--json", dest="format", action="store_const", const="json", default="table")
    parser.add_argument("--markdown", dest="format", action="store_const", const="markdown")


def human(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.1f} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(figures: Sequence[Figure], title: str, output: Format) -> None:
    match output:
        case "json":
            rows = [{**asdict(figure), "reached": figure.reached} for figure in figures]
            print(json.dumps({"title": title, "machine": _machine(), "figures": rows}, indent=1))
        case "markdown":
            print(f"| {title} | | goal | |\n|---|---|---|---|")
            for figure in figures:
                print(f"| {figure.name} | {figure.shown} | {figure.goal_shown} | {figure.note} |")
        case "table":
            table = Table(title=f"{title} ({_machine()})")
            for heading in ("what", "figure", "goal", "note"):
                table.add_column(heading, justify="right" if heading == "figure" else "left")
            for figure in figures:
                table.add_row(figure.name, figure.shown, figure.goal_shown, figure.note)
            _print(table)


def report_comparisons(rows: Sequence[Comparison], systems: Sequence[str], title: str, output: Format) -> None:
    """A column for each system, the ratios of ours to the best of the others, and the goals."""
    headings = (title, *systems, "ratio", "goal", "note")
    cells = [
        (row.name, *(row.shown(system) for system in systems), row.ratios_shown, row.goal_shown, row.note)
        for row in rows
    ]
    match output:
        case "json":
            facts = [{**asdict(row), "best": row.best, "reached": row.reached} for row in rows]
            print(json.dumps({"title": title, "machine": _machine(), "rows": facts}, indent=1))
        case "markdown":
            for line in (headings, ["---"] * len(headings), *cells):
                print(f"| {' | '.join(line)} |")
        case "table":
            table = Table(title=f"{title} ({_machine()})")
            for heading in ("what", *headings[1:]):
                table.add_column(heading, justify="right" if heading in systems else "left")
            for line in cells:
                table.add_row(*line)
            _print(table)


def _print(table: Table) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)


def _machine() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}"
