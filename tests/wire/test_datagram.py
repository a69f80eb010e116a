"""The first byte tells EMM and EMM-C apart."""

from __future__ import annotations

import pytest

from weft.wire.datagram import DatagramProtocol, is_urgent_untrusted, protocol_of_untrusted
from weft.wire.reject import BadPacket, Reject


@pytest.mark.req("EMM-01", "EMC-01")
def test_every_first_byte() -> None:
    for byte in range(256):
        data = bytes((byte, 0, 0))
        if byte == 1:
            assert protocol_of_untrusted(data) is DatagramProtocol.EMM
        elif 0x20 <= byte <= 0x3F:
            assert protocol_of_untrusted(data) is DatagramProtocol.EMM_COMPACT
        else:
            with pytest.raises(BadPacket) as caught:
                protocol_of_untrusted(data)
            assert caught.value.reason is Reject.PROTOCOL


def test_an_empty_datagram() -> None:
    with pytest.raises(BadPacket) as caught:
        protocol_of_untrusted(b"")
    assert caught.value.reason is Reject.TRUNCATED


@pytest.mark.req("EMM-29")
@pytest.mark.parametrize(
    ("data", "urgent"),
    [
        (b"", False),
        (b"\x01\0\0\0\0", False),
        (b"\x01\0\0\0\0\x01", True),
        (b"\x01\0\0\0\0\x07rest", True),
        (b"\x01\0\0\0\0\x06", False),
        (b"\x28", True),
        (b"\x2b\0", True),
        (b"\x20\0\0\0\0\x01", False),
        (b"\x48\0\0\0\0\x01", False),
    ],
)
def test_what_claims_to_be_urgent(data: bytes, urgent: bool) -> None:
    assert is_urgent_untrusted(data) is urgent
