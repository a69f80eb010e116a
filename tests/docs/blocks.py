"""The blocks of code in the documents, and what is said about running them.

``test_blocks.py`` runs a block by the language of its fence, unless an HTML comment right above it says otherwise:

- ``<!-- not run: REASON -->``: nobody runs it, and why.
- ``<!-- run by tests/x/test_y.py -->``: that test does, and asks ``blocks_for`` for it.
- ``<!-- settings of PIPELINE -->``: for TOML whose first line is not the name of its file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DECISIONS: Final = ROOT / "docs" / "adr"  # what was thought then: never changed, so never run
PAGES: Final = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if DECISIONS not in page.parents and page.name != "CHANGELOG.md"
)
FENCE: Final = re.compile(r" *(```+|~~~+) *([\w-]*)(.*)")
MARK: Final = re.compile(r"<!-- *(not run|run by|settings of):? +(.+?) *-->")
FILE: Final = re.compile(r"# ([\w-]+\.(?:py|toml))\b")


@dataclass(frozen=True, slots=True)
class Block:
    page: str  # below the repository: docs/kv.md
    line: int  # of its fence
    language: str
    code: str
    mark: str | None = None  # "not run", "run by", "settings of"
    said: str = ""  # what the mark says: the reason, the test, the pipeline

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that a reader is to make of it: named in its first line, as a comment."""
        found = FILE.match(self.code)
        return found[1] if found and self.language in ("python", "toml") else None


def blocks_in(page: str, text: str) -> list[Block]:
    """In their order. A fence that is never closed is an error."""
    lines = text.splitlines()
    blocks = []
    at = 0
    while at < len(lines):
        opened = FENCE.fullmatch(lines[at])
        if opened is None:
            at += 1
            continue
        indent = len(lines[at]) - len(lines[at].lstrip())
        end = next(
            (index for index in range(at + 1, len(lines)) if lines[index].strip() == opened[1]),
            None,
        )
        assert end is not None, f"{page}:{at + 1}: this block has no end"
        code = "".join(f"{line[indent:]}\n" for line in lines[at + 1 : end])
        mark = _mark_above(lines, at)
        blocks.append(Block(page, at + 1, opened[2], code, *(mark or ())))
        at = end + 1
    return blocks


def _mark_above(lines: list[str], fence: int) -> tuple[str, str] | None:
    above = next((line.strip() for line in reversed(lines[:fence]) if line.strip()), "")
    found = MARK.fullmatch(above)
    return (found[1], found[2]) if found else None


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    return tuple(blocks_in(page, (ROOT / page).read_text()))


def blocks_for(page: str, test: str) -> list[Block]:
    """Those that the page says this test runs; ``test`` is its ``__file__``."""
    name = str(Path(test).resolve().relative_to(ROOT))
    found = [block for block in blocks_of(page) if block.mark == "run by" and block.said == name]
    assert found, f"{page} has no block for {name}"
    return found
