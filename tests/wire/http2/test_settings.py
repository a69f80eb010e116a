"""What each side allows the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.wire.http2.support import SERVER
from weft.wire.http2 import BadHttp2, ErrorCode, Http2Settings, code_name
from weft.wire.http2.frames import SETTING, Setting
from weft.wire.http2.settings import PeerSettings


def payload(*values: tuple[int, int]) -> bytes:
    return b"".join(SETTING.pack(*each) for each in values)


def test_what_counts_before_a_peer_has_spoken() -> None:
    """RFC 9113, 6.5.2"""
    peer = PeerSettings()
    assert (peer.first_window_bytes, peer.frame_bytes_max) == (65_535, 16_384)


def test_the_last_value_counts_and_others_stay() -> None:
    peer = PeerSettings().updated_untrusted(payload((4, 1), (3, 5), (4, 2), (99, 7)), by_server=False)
    assert (peer.first_window_bytes, peer.streams_max, peer.frame_bytes_max) == (2, 5, 16_384)
    again = peer.updated_untrusted(payload((5, 20_000)), by_server=False)
    assert (again.first_window_bytes, again.streams_max, again.frame_bytes_max) == (2, 5, 20_000)


def test_talk_of_the_table_is_for_the_next_block_only() -> None:
    peer = PeerSettings().updated_untrusted(payload((Setting.HEADER_TABLE_SIZE, 0)), by_server=False)
    assert peer.shrinks_table
    assert not peer.updated_untrusted(b"", by_server=False).shrinks_table


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (Setting.ENABLE_PUSH, 2, ErrorCode.PROTOCOL_ERROR),
        (Setting.INITIAL_WINDOW_SIZE, 1 << 31, ErrorCode.FLOW_CONTROL_ERROR),
        (Setting.MAX_FRAME_SIZE, (1 << 14) - 1, ErrorCode.PROTOCOL_ERROR),
        (Setting.MAX_FRAME_SIZE, 1 << 24, ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_values_out_of_range(name: int, value: int, code: ErrorCode) -> None:
    with pytest.raises(BadHttp2) as caught:
        PeerSettings().updated_untrusted(payload((name, value)), by_server=False)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "changes",
    [
        {"frame_bytes_max": (1 << 14) - 1},
        {"frame_bytes_max": 1 << 24},
        {"first_window_bytes": 65_534},
        {"stream_window_bytes": 1000},
        {"connection_window_bytes": 1 << 31},
    ],
)
def test_settings_of_ours_that_make_no_sense(changes: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        replace(SERVER, **changes)


def test_defaults_hold_a_message_of_the_largest_size() -> None:
    settings = Http2Settings()
    assert settings.assembly_bytes_max >= settings.message_bytes_max
    assert settings.connection_window_bytes >= settings.stream_window_bytes >= settings.first_window_bytes


def test_names_of_codes() -> None:
    assert code_name(8) == "CANCEL"
    assert code_name(99) == "99"
