"""The table and the pictures of a run, for docs/benchmarks.md. Pure, but for writing the files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.figures import TIMES, human

BEGIN, END = "<!-- peers: written by make bench-peers -->", "<!-- peers: end -->"
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#b7950b", "#7fb3d5", "#7dcea0", "#f7dc6f", "#a569bd", "#909497")
LEFT, RIGHT, TOP, ROW_HEIGHT, WIDTH = 330, 30, 56, 20, 980
PICTURES = {  # file: title, unit
    "peers-latency.svg": ("Latency, less is better (ms, log scale)", "ms"),
    "peers-rates.svg": ("Events per second, more is better (log scale)", "/s"),
}

Results = Mapping[str, Any]


def write_page(results: Results, docs: Path | None) -> str:
    """The section as Markdown; with ``docs`` it replaces the one on the page, and the pictures are written."""
    text = section(results)
    if docs is not None:
        page = docs / "benchmarks.md"
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
        for name, (title, unit) in PICTURES.items():
            (docs / name).write_text(picture(results, title, unit))
    return text


def names_of(results: Results) -> list[str]:
    """Those that gave any figure, in their order."""
    known = {name for result in results["results"] for name in result["values"]}
    return [system["name"] for system in results["systems"] if system["name"] in known]


def section(results: Results) -> str:
    names = names_of(results)
    lines = [
        f"{results['date']}, commit {results['commit']}, {results['machine']}: {results['rounds']} rounds, scale "
        f"{results['scale']}, {results['took_s']} s in all.",
        "",
        "| system | what an acknowledgement promises |",
        "|---|---|",
        *(f"| {each['name']} | {each['durability']} |" for each in results["systems"] if each["name"] in names),
        *(f"| {name} | left out: {why} |" for name, why in results["left_out"].items()),
        "",
        f"| what | {' | '.join(names)} | Weft to the best synced peer | note |",
        f"|---|{'--:|' * (len(names) + 1)}---|",
    ]
    for name, (before, unit, after) in results["limits"].items():
        lines.append(f"| {name} | {' | ' * len(names)} | {human(before)} {unit} before, {human(after)} {unit} after |")
    lines += [_line(result, names) for result in results["results"]]
    return "\n".join([*lines, "", *(f"![{title}]({name})" for name, (title, _) in PICTURES.items()), ""])


def _line(result: Mapping[str, Any], names: Sequence[str]) -> str:
    cells = []
    for name in names:
        figure, ratio = result["values"].get(name), result["ratios"].get(name)
        shown = "" if figure is None else f"{human(figure)} {result['unit']}"
        cells.append(f"{shown} ({human(ratio)} {TIMES})" if figure is not None and ratio is not None else shown)
    ratio = result["ratios"].get("Weft")
    verdict = "" if ratio is None else f"**{human(ratio)} {TIMES}** {_word(ratio, result['is_ceiling'])}"
    return f"| {result['name']} | {' | '.join(cells)} | {verdict} | {'; '.join(result['notes'])} |"


def _word(ratio: float, is_ceiling: bool) -> str:
    return "ahead" if (ratio < 1) == is_ceiling else "behind"


def picture(results: Results, title: str, unit: str) -> str:
    """A row for each figure, a dot for each system, one logarithmic scale."""
    rows = [result for result in results["results"] if result["unit"] == unit and any(result["values"].values())]
    values = [figure for row in rows for figure in row["values"].values() if figure > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high, height = max(high, low + 1), TOP + ROW_HEIGHT * len(rows) + 40

    def x(figure: float) -> float:
        return LEFT + (math.log10(figure) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    names = names_of(results)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for number, name in enumerate(names):
        at = 10 + number * (WIDTH - 20) / max(len(names), 1)
        parts.append(f'<circle cx="{at + 5:.0f}" cy="38" r="5" fill="{colours[name]}"/>')
        parts.append(f'<text x="{at + 14:.0f}" y="42">{escape(name)}</text>')
    bottom = TOP + ROW_HEIGHT * len(rows)
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>')
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(row["name"])}</text>')
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#f0f0f0"/>')
        for name in reversed(names):  # ours on top
            if (figure := row["values"].get(name, 0)) > 0:
                parts.append(
                    f'<circle cx="{x(figure):.1f}" cy="{y}" r="5" fill="{colours[name]}" fill-opacity="0.85"/>'
                )
    return "\n".join([*parts, "</svg>", ""])


def _power(power: int) -> str:
    return human(10.0**power) if power >= 0 else f"{10.0**power:g}"
