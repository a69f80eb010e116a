"""Where a subscription begins, and where it goes on after a reconnect."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from weft.client.refs import stream_positions
from weft.client.start import Where, parse_where, resumed, start_message
from weft.errors import UsageError
from weft.model import parse_position

OPENED_US = 1_700_000_000_000_000
HERE = [parse_position("t@a/0:e7:5")]


@pytest.mark.parametrize(
    ("where", "otherwise_us"),
    [
        ("latest", OPENED_US),
        ("group", OPENED_US),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000_000),
        ("earliest", None),
        (HERE, None),
    ],
    ids=str,
)
@pytest.mark.req("SDK-01")
def test_who_resumes_is_not_shown_what_was_old_when_it_began(where: Where, otherwise_us: int | None) -> None:
    start = resumed(start_message(where), stream_positions(HERE), OPENED_US)
    assert [each.next_offset for each in start.positions.positions] == [5]
    assert start.HasField("otherwise_timestamp_us") == (otherwise_us is not None)
    assert start.otherwise_timestamp_us == (otherwise_us or 0)


@pytest.mark.parametrize("where", ["oldest", True, -1, datetime(2026, 1, 1), ["t"]], ids=str)
def test_what_is_no_place_to_begin_is_refused(where: object) -> None:
    with pytest.raises(UsageError):
        parse_where(where)  # type: ignore[arg-type]
