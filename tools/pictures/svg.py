"""Boxes on a grid and arrows between them, as SVG."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Final, Literal

Kind = Literal["plain", "pure", "outside", "store", "group"]
FILLS: Final[dict[Kind, str]] = {
    "plain": "#e8eef7", "pure": "#e4f3e6", "outside": "#ffffff", "store": "#fdf1d8", "group": "#f7f7f9",
}  # fmt: skip
LINE: Final = "#4a5568"
FONT_PX: Final = 13
LETTER_PX: Final = 6.7  # of that font, on average
BOLD: Final = 1.15  # how much wider the first line is
LINE_PX: Final = 17
MARGIN: Final = 16
HEAD_PX: Final = 9


@dataclass(frozen=True, slots=True)
class Box:
    """``at``: column and row of its centre, in cells. The first line of the text is bold."""

    name: str
    text: tuple[str, ...]
    at: tuple[float, float]
    kind: Kind = "plain"
    size: tuple[float, float] | None = None  # in cells; by its text otherwise


@dataclass(frozen=True, slots=True)
class Arrow:
    """From border to border. ``shift`` moves both ends sideways, for two arrows between the same boxes."""

    source: str
    target: str
    label: str = ""
    label_below: bool = False
    dashed: bool = False
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    cell: tuple[int, int]
    size: tuple[float, float]  # in cells
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[tuple[float, float, str], ...] = field(default=())  # column, row, text


Point = tuple[float, float]


def drawn(picture: Picture) -> str:
    """The picture as a file. The title is for those who cannot see it."""
    width, height = (round(size * cell) + 2 * MARGIN for size, cell in zip(picture.size, picture.cell, strict=True))
    places = {box.name: (_centre(picture, box.at), _size(picture, box)) for box in picture.boxes}
    groups = [box for box in picture.boxes if box.kind == "group"]
    others = [box for box in picture.boxes if box.kind != "group"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="{FONT_PX}" role="img">',
        f"<title>{escape(picture.title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *(_box(box, *places[box.name]) for box in groups),
        *(_arrow(arrow, places[arrow.source], places[arrow.target]) for arrow in picture.arrows),
        *(_box(box, *places[box.name]) for box in others),
        *(_label(arrow, places[arrow.source], places[arrow.target]) for arrow in picture.arrows if arrow.label),
        *(_text(_centre(picture, (x, y)), (text,), colour=LINE, bold=False) for x, y, text in picture.notes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _centre(picture: Picture, at: Point) -> Point:
    return MARGIN + at[0] * picture.cell[0], MARGIN + at[1] * picture.cell[1]


def _size(picture: Picture, box: Box) -> Point:
    if box.size is not None:
        return box.size[0] * picture.cell[0], box.size[1] * picture.cell[1]
    letters = max(len(box.text[0]) * BOLD, *map(len, box.text))
    return letters * LETTER_PX * 1.08 + 22, len(box.text) * LINE_PX + 16


def _box(box: Box, centre: Point, size: Point) -> str:
    (x, y), (width, height) = centre, size
    dash = ' stroke-dasharray="5 4"' if box.kind == "group" else ""
    shape = (
        f'<rect x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" '
        f'fill="{FILLS[box.kind]}" stroke="{LINE}"{dash}/>'
    )
    at = (x, y - height / 2 + 8 + LINE_PX / 2) if box.kind == "group" else centre
    return shape + "\n" + _text(at, box.text, colour="#1a202c", bold=True)


def _text(centre: Point, lines: tuple[str, ...], *, colour: str, bold: bool) -> str:
    x, y = centre
    weight = ' font-weight="bold"'
    first = y - (len(lines) - 1) * LINE_PX / 2 + FONT_PX * 0.36
    return "\n".join(
        f'<text x="{x:.0f}" y="{first + number * LINE_PX:.0f}" text-anchor="middle" fill="{colour}"'
        f"{weight if bold and number == 0 else ''}>{escape(line)}</text>"
        for number, line in enumerate(lines)
    )


def _ends(arrow: Arrow, source: tuple[Point, Point], target: tuple[Point, Point]) -> tuple[Point, Point]:
    """Where the line between two centres leaves the one box and enters the other."""
    (x1, y1), (x2, y2) = source[0], target[0]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    aside = (-(y2 - y1) / length * arrow.shift, (x2 - x1) / length * arrow.shift)
    one, other = (x1 + aside[0], y1 + aside[1]), (x2 + aside[0], y2 + aside[1])
    return _border(source, one, other), _border(target, other, one)


def _border(place: tuple[Point, Point], inside: Point, outside: Point) -> Point:
    """The point on the way out at which the box ends."""
    (centre_x, centre_y), (width, height) = place
    (x, y), (dx, dy) = inside, (outside[0] - inside[0], outside[1] - inside[1])
    right = (centre_x + width / 2 if dx > 0 else centre_x - width / 2) - x
    below = (centre_y + height / 2 if dy > 0 else centre_y - height / 2) - y
    part = min((limit / way for limit, way in ((right, dx), (below, dy)) if abs(way) > 1e-9), default=0.0)
    return x + dx * part, y + dy * part


def _arrow(arrow: Arrow, source: tuple[Point, Point], target: tuple[Point, Point]) -> str:
    (x1, y1), (x2, y2) = _ends(arrow, source, target)
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - ux * HEAD_PX, y2 - uy * HEAD_PX
    wing_x, wing_y = -uy * HEAD_PX * 0.42, ux * HEAD_PX * 0.42
    dash = ' stroke-dasharray="5 4"' if arrow.dashed else ""
    return (
        f'<path d="M{x1:.1f} {y1:.1f}L{bx:.1f} {by:.1f}" stroke="{LINE}" fill="none"{dash}/>\n'
        f'<path d="M{x2:.1f} {y2:.1f}L{bx + wing_x:.1f} {by + wing_y:.1f}L{bx - wing_x:.1f} {by - wing_y:.1f}Z" '
        f'fill="{LINE}"/>'
    )


def _label(arrow: Arrow, source: tuple[Point, Point], target: tuple[Point, Point]) -> str:
    (x1, y1), (x2, y2) = _ends(arrow, source, target)
    lines = tuple(arrow.label.split("\n"))
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    if abs(y2 - y1) < 1:  # not across a level line
        y += (1 if arrow.label_below else -1) * (len(lines) * LINE_PX / 2 + 3)
    width = max(map(len, lines)) * LETTER_PX + 6
    ground = (
        f'<rect x="{x - width / 2:.0f}" y="{y - len(lines) * LINE_PX / 2:.0f}" width="{width:.0f}" '
        f'height="{len(lines) * LINE_PX}" fill="#ffffff" fill-opacity="0.85"/>'
    )
    return ground + "\n" + _text((x, y), lines, colour=LINE, bold=False)
