"""Text of others on a terminal: nothing acts, nothing is hidden, and one line stays one."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.visible import visible, visible_json


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plant.line1.temp",
        "21 °C",
        "naïve",
        "日本語\u3000テスト",
        "שלום",
        "c:\\new",
        "e\u0301",
        "a\u00a0b",
        "😀",
    ],
)
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\tand a tab", r"two\nlines\r\tand a tab"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),  # the same sequence in eight bits
        ("back\x08\x7f\x00", r"back\x08\x7f\x00"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),  # turned around
        ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),  # other ends of lines
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),  # a tag: text that no font shows
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_whatever_comes_is_one_line_that_can_be_written(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert visible(shown) == shown


@given(st.recursive(st.text(st.characters(exclude_categories=["Cs"])), lambda inner: st.lists(inner, max_size=3)))
def test_json_says_the_same_and_all_of_it_can_be_seen(value: object) -> None:
    for indent in (None, 2):
        shown = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(shown) == value
        assert all(visible(line) == line for line in shown.split("\n"))
