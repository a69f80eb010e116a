"""How much fits a page, and what becomes of clients that ask for none."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.model import Epoch, parse_stream
from weft.port.errors import TooLarge
from weft.port.pages import (
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    WHOLE_BYTES_MAX,
    PageRoom,
    read_stream_token_untrusted,
    read_text_token_untrusted,
    stream_token,
)


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(("limit", "entries"), [(0, PAGE_ENTRIES_MAX), (3, 3), (1 << 31, PAGE_ENTRIES_MAX)])
def test_a_page_has_a_bounded_number_of_entries(limit: int, entries: int) -> None:
    room = PageRoom.wanted(limit)
    taken = 0
    while not room.is_full:
        room.take(10)
        taken += 1
    assert taken == entries


@pytest.mark.req("SEC-05")
def test_a_page_has_a_bounded_size() -> None:
    room = PageRoom.wanted(0)
    room.take(PAGE_BYTES_MAX)
    assert room.is_full


@pytest.mark.req("SEC-05")
def test_who_asks_for_no_pages_is_told_that_there_is_too_much() -> None:
    room = PageRoom.wanted(None)
    for _ in range(15):
        assert not room.is_full
        room.take(WHOLE_BYTES_MAX // 15)
    with pytest.raises(TooLarge, match="ask for pages"):
        _ = room.is_full


def test_tokens() -> None:
    stream = parse_stream("a.b@node/3")
    assert read_stream_token_untrusted(stream_token(stream, Epoch(7))) == (stream, Epoch(7))
    assert read_stream_token_untrusted(b"") is None
    for token in (b"\xff", b"\x0a\x01a", b"x" * 100):
        with pytest.raises(UsageError, match="not the token of a page"):
            read_stream_token_untrusted(token)
    with pytest.raises(UsageError, match="not the token of a page"):
        read_text_token_untrusted(b"\xff")
