"""How ``weft packet decode`` shows a message: as a tree, as JSON, or, for a malformed one, where it breaks."""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec
from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from weft.cli.console import err, out
from weft.cli.packet.input import Captured
from weft.errors import PeerError
from weft.visible import visible
from weft.wire.describe import Part

HEX_BYTES_SHOWN: Final = 32  # of one part: a key or an HMAC, but not a whole text
DUMP_BYTES_AROUND: Final = 16


def print_tree(root: Part, captured: Captured) -> None:
    tree = Tree(Text(f"{root.name}, {captured}", style="bold"))
    for part in root.parts:
        _grow(tree, part, captured.data, root)
    out.print(tree)


def _grow(tree: Tree, part: Part, data: bytes, parent: Part) -> None:
    """One line per part: where it is, what it is called, what it means, and the bytes of a leaf."""
    label = Text(f"{part.at:04x} ", style="dim", overflow="fold")
    label.append(part.name, style="cyan")
    raw = data[part.at : part.end]
    if part.value not in ("", parent.value, raw.hex()):
        label.append(visible(f"  {part.value}"), style="default")
    if not part.parts:
        label.append(f"  {_hex(raw)}")
    branch = tree.add(label)
    for child in part.parts:
        _grow(branch, child, data, part)


def _hex(data: bytes) -> str:
    shown = data[:HEX_BYTES_SHOWN].hex(" ")
    return shown if len(data) <= HEX_BYTES_SHOWN else f"{shown} … {len(data)} bytes, all with --json"


def part_document(part: Part, data: bytes) -> dict[str, Any]:
    """A part and all below it, JSON-ready; leaves carry their bytes."""
    document: dict[str, Any] = {"name": part.name, "at": part.at, "size": part.size}
    if part.value:
        document["value"] = part.value
    if part.parts:
        document["parts"] = [part_document(child, data) for child in part.parts]
    else:
        document["hex"] = data[part.at : part.end].hex()
    return document


def print_fault(captured: Captured, error: PeerError, *, json: bool) -> None:
    """Why a message is malformed, and the bytes around the place."""
    reason = getattr(error, "reason", None) or getattr(error, "code", None)
    if json:
        fault = {"what": error.what, "reason": None if reason is None else str(reason), **_plain(error.facts)}
        line: dict[str, Any] = {"error": fault, "hex": captured.data.hex()}
        if captured.origin:
            line["capture"] = captured.origin
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        return
    named = "" if reason is None else f" [dim]({escape(str(reason))})[/]"
    err.print(f"[red]malformed[/] ({escape(str(captured))}): {escape(str(error))}{named}")
    at = error.facts.get("at")
    if isinstance(at, int) and 0 <= at <= len(captured.data):
        for row in _dump(captured.data, at):
            err.print(row, highlight=False, markup=False)


def _dump(data: bytes, at: int) -> tuple[str, str]:
    """The line of bytes around ``at``, and a mark below it."""
    first = max(0, at - DUMP_BYTES_AROUND)
    shown = data[first : at + DUMP_BYTES_AROUND]
    margin = f"  {first:04x}  "
    return f"{margin}{shown.hex(' ')}", f"{' ' * (len(margin) + 3 * (at - first))}^^ byte {at}"


def _plain(facts: dict[str, object]) -> dict[str, object]:
    return {name: value if isinstance(value, int | float | str | None) else str(value) for name, value in facts.items()}
