"""Knobs of peer links: defaults hold together, ranges are checked, connections keep to them."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.limits import PEER_FRAME_BYTES_MAX
from weft.transport.peers.settings import RANGES, LinkSettings, channel_settings


@pytest.mark.req("PL-07")
@pytest.mark.parametrize("knob", list(RANGES))
def test_every_knob_has_a_range(knob: str) -> None:
    least, most = RANGES[knob]
    for value in (least - 1, most + 1, float("nan")):
        with pytest.raises(UsageError, match=f"{knob} of peer links is out of range"):
            LinkSettings(**{knob: value})  # type: ignore[arg-type]


@pytest.mark.req("PL-07")
def test_backoff_cannot_begin_above_its_end() -> None:
    with pytest.raises(UsageError, match="above backoff_s_max"):
        LinkSettings(backoff_s_min=2.0, backoff_s_max=1.0)


@pytest.mark.req("PL-07")
def test_a_connection_keeps_to_the_knobs() -> None:
    settings = LinkSettings(max_message_bytes=PEER_FRAME_BYTES_MAX + 1, keepalive_s=7.0, dial_timeout_s=3.0)
    made = channel_settings(settings)
    assert made.endpoint.http2.message_bytes_max == PEER_FRAME_BYTES_MAX + 1
    assert (made.endpoint.keepalive_s, made.connect_timeout_s) == (7.0, 3.0)
