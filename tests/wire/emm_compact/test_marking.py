"""DSCP, ECN and TTL as values; the rows are those of the document's section 4.1."""

from __future__ import annotations

import pytest

from tests.wire.emm_compact.packets import COMMAND, DATAGRAMS, HEARTBEAT, JOIN, assemble
from weft.errors import UsageError
from weft.wire.emm_compact import TTL_DEFAULT, Ecn, decode_untrusted, dscp, ecn_of, next_ttl, tos


@pytest.mark.parametrize(
    ("datagram", "expected"),
    [
        (assemble("20", "1121"), 0x08),
        (assemble("20", "1221"), 0x10),
        (assemble("20", "1321"), 0x18),
        (assemble("20", "1421"), 0x20),
        (assemble("20", "1521"), 0x28),
        (assemble("20", "1621"), 0x30),
        (assemble("20", "1721"), 0x38),
        (DATAGRAMS["command-fingerprint"], 0x38),  # urgent
        (assemble("21", *COMMAND), 0x20),
        (assemble("22", *HEARTBEAT), 0x10),
        (assemble("23", *JOIN), 0x20),
    ],
)
def test_dscp_of_each_row(datagram: bytes, expected: int) -> None:
    assert dscp(decode_untrusted(datagram)) == expected


def test_urgency_counts_for_commands_only() -> None:
    urgent = b"\x28" + assemble("20", "1121")[1:]
    assert dscp(decode_untrusted(urgent)) == 0x08


@pytest.mark.parametrize(
    ("bits", "ecn", "byte"),
    [(0x38, Ecn.CE, 0b111000_11), (0x08, Ecn.ECT_0, 0b001000_10), (0, Ecn.NOT_ECT, 0), (0x3F, Ecn.ECT_1, 0xFD)],
)
def test_the_tos_byte(bits: int, ecn: Ecn, byte: int) -> None:
    assert tos(bits, ecn) == byte
    assert ecn_of(byte) is ecn


@pytest.mark.parametrize("bits", [-1, 64])
def test_dscp_has_six_bits(bits: int) -> None:
    with pytest.raises(UsageError):
        tos(bits, Ecn.CE)


@pytest.mark.parametrize(("ttl", "expected"), [(64, 63), (2, 1), (1, None), (0, None)])
def test_ttl_goes_down_and_zero_is_not_propagated(ttl: int, expected: int | None) -> None:
    assert next_ttl(ttl) == expected


def test_ttl_begins_at_64() -> None:
    assert TTL_DEFAULT == 64
