"""Words that make a reader read a sentence twice do not stand in documents, in messages, nor in the source's own notes.

The list is short on purpose: each entry was found in the documents again and again, and has no good use there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

GIVE_AWAYS = {
    r"\banew\b": "again",
    r"\bany more\b": "no longer",
    r"\bgood no more\b": "no longer valid",
    r"\bof no use\b": "useless, or: useful only to",
    r"\bhad better\b": "should",
    r"\b(is|was|are|were) told so\b": "who tells whom what?",
    r"\bwho(m)?ever\b": "say who: a client, a node, anybody who",
    r"\b(for|by|to|from) who\b": "say who: a client, a node, anybody who",
    r"\bwho wants\b": "a subscriber, a caller that wants",
}
SOURCES = sorted(each for each in (ROOT / "src" / "weft").rglob("*.py") if not each.stem.endswith("_pb2"))


def found_in(text: str) -> Iterator[str]:
    for pattern, better in GIVE_AWAYS.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            around = text[max(0, match.start() - 40) : match.end() + 40].replace("\n", " ")
            yield f'"{match.group()}" in "...{around}..." (write: {better})'


def spoken(source: str) -> Iterator[str]:
    """The strings of a module that somebody may get to read: all but docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def notes(source: str) -> Iterator[str]:
    """The docstrings and comments of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield " ".join(node.value.value.split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_document_is_in_plain_english(page: Path) -> None:
    assert list(found_in(page.read_text())) == []


def test_messages_and_help_are_in_plain_english() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in SOURCES
        for text in spoken(path.read_text())
        for fault in found_in(text)
    ]
    assert faults == []


def test_docstrings_and_comments_are_in_plain_english() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in SOURCES
        for text in notes(path.read_text())
        for fault in found_in(text)
    ]
    assert faults == []


def test_the_check_finds_what_it_is_for() -> None:
    planted = "Whoever this is, it is nobody any more, and begins anew."
    assert len(list(found_in(planted))) == 3
    assert list(spoken('"""Anew."""\nx = "begin anew"\n')) == ["begin anew"]
    assert list(notes('"""Begin\n\nanew."""\nx = "anew"  # any more\n')) == ["Begin anew.", "# any more"]
