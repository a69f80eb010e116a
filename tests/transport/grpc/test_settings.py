"""Knobs of peer links: defaults hold together, ranges are checked, gRPC enforces sizes."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.limits import PEER_FRAME_BYTES_MAX
from weft.transport.grpc.settings import RANGES, LinkSettings, channel_options, server_options


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
def test_grpc_is_told_the_largest_message_in_both_directions() -> None:
    settings = LinkSettings(max_message_bytes=PEER_FRAME_BYTES_MAX + 1)
    for options in (dict(channel_options(settings)), dict(server_options(settings))):
        assert options["grpc.max_receive_message_length"] == PEER_FRAME_BYTES_MAX + 1
        assert options["grpc.max_send_message_length"] == PEER_FRAME_BYTES_MAX + 1
