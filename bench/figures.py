"""Figures that are not all rates: latencies, ratios and sizes, each beside its goal. A table, JSON or Markdown."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

Format = Literal["table", "json", "markdown"]
WIDTH = 150


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
            console = Console()
            if not console.is_terminal:
                console.width = WIDTH
            console.print(table)


def _machine() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}"
