"""Every byte of a packet has one place in its description."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.wire.emm_compact.packets import DATAGRAMS, datagrams, mutated
from weft.wire.describe import Part, unaccounted
from weft.wire.emm_compact import describe_untrusted
from weft.wire.reject import BadPacket


def leaves(part: Part) -> list[tuple[int, int, str, str]]:
    return [(leaf.at, leaf.size, leaf.name, leaf.value) for leaf in part.leaves()]


@given(datagrams())
@settings(max_examples=200)
def test_every_byte_is_in_one_leaf(data: bytes) -> None:
    tree = describe_untrusted(data)
    assert (tree.at, tree.size) == (0, len(data))
    assert unaccounted(tree) == []
    covered = [at for at, size, _, _ in leaves(tree) for at in range(at, at + size)]
    assert covered == list(range(len(data)))


@given(mutated())
def test_damaged_packets_are_refused(data: bytes) -> None:
    try:
        tree = describe_untrusted(data)
    except BadPacket:
        return
    assert unaccounted(tree) == []


def test_a_notification() -> None:
    data = DATAGRAMS["notification-urgent-json"]
    assert leaves(describe_untrusted(data)) == [
        (0, 1, "version, flags, type", "version 1, urgent, notification"),
        (1, 2, "event id", "65535"),
        (3, 2, "epoch", "65535"),
        (5, 2, "offset", "65535"),
        (7, 1, "payload length", "49 bytes"),
        (8, 1, "type", "0xfe"),
        (9, 1, "length", "32"),
        (10, 32, "value", data[10:42].hex()),
        (42, 1, "priority", "critical"),
        (43, 1, "format", "json"),
        (44, 13, "message", repr('{"°C": 99.5}')),
    ]


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("command-node-id", 76, "log.level"),
        ("command-node-id", 87, repr('{"level":"debug"}')),
        ("command-node-id", 106, "00112233-4455-6677-8899-aabbccddeeff"),
        ("command-fingerprint", 76, "abcd"),
        ("command-every-field", 79, "ff"),
        ("command-every-field", 82, "utf-8"),
        ("heartbeat", 46, "3600"),
        ("heartbeat", 70, "ecn ce, sent 5, received 31"),
        ("heartbeat", 78, "hops 2, ttl 31, origin a1b2c3d4"),
        ("heartbeat-any-order", 46, "00112233-4455-6677-8899-aabbccddeeff"),
        ("heartbeat-any-order", 64, "3"),
        ("heartbeat-any-order", 67, "eu"),
        ("heartbeat-any-order", 71, "010203"),
        ("join", 94, "notification, command, join"),
        ("join", 103, repr("ready")),
    ],
)
def test_readable_values(name: str, at: int, value: str) -> None:
    found = {leaf_at: leaf_value for leaf_at, _, _, leaf_value in leaves(describe_untrusted(DATAGRAMS[name]))}
    assert found[at] == value


def test_control_characters_do_not_reach_a_terminal() -> None:
    from_sender = (
        bytes.fromhex("20000100020003") + bytes((2 + 32 + 2 + 5,)) + b"\xfe\x20" + bytes(32) + b"\x13\x24\x1b[31m"
    )
    assert leaves(describe_untrusted(from_sender))[-1][3] == repr("\x1b[31m")
