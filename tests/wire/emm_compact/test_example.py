"""The document's example packet (2.5) is refused for each of its mistakes in turn, until it is mended (EMC-06)."""

from __future__ import annotations

import pytest

from weft.wire.emm_compact import Format, Notification, Priority, Triple, decode_untrusted
from weft.wire.reject import BadPacket, Reject

# As printed. Version and type stand in two bytes (01 00) where 2.1 has one; the payload length says 0x25 = 37, but 67
# bytes follow; and a byte 1F before the message is meant as its length (which is 30, not 31).
PRINTED = bytes.fromhex(
    "01 00 00 01 00 01 00 0F 25"
    "FE 20 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 13 21 1F"
    "48 65 6C 6C 6F 2C 20 45 4D 50 21 20 54 68 69 73 20 69 73 20 61 20 74 65 73 74 2E 20 3A 29"
)


def refusal(datagram: bytes) -> BadPacket:
    with pytest.raises(BadPacket) as caught:
        decode_untrusted(datagram)
    return caught.value


@pytest.mark.req("EMC-06")
def test_the_example_is_refused_for_each_of_its_errata() -> None:
    first = refusal(PRINTED)
    assert (first.reason, first.facts["at"]) == (Reject.VERSION, 0)

    # Erratum 1: one byte of version 001, flags 00 and type 000.
    one_first_byte = b"\x20" + PRINTED[2:]
    second = refusal(one_first_byte)
    assert (second.reason, second.facts) == (Reject.LENGTH_MISMATCH, {"at": 7, "need": 0x25, "have": 67})

    # Erratum 2: the true length.
    true_length = one_first_byte[:7] + bytes((67,)) + one_first_byte[8:]
    third = refusal(true_length)
    assert (third.reason, third.facts) == (Reject.TLV_VALUE, {"at": 44, "character": "0x1f"})

    # Erratum 3: no length byte before the message.
    mended = true_length[:7] + bytes((66,)) + true_length[8:44] + true_length[45:]
    packet = decode_untrusted(mended)
    assert packet.header.triple == Triple(event_id=1, epoch=1, offset=15)
    assert packet.body == Notification(Priority.INFO, Format.PLAIN_TEXT, b"Hello, EMP! This is a test. :)")


@pytest.mark.req("EMC-06")
def test_changing_only_the_first_byte_of_the_example_is_not_enough() -> None:
    # With the superfluous second byte left in, everything is one place off and 0F is read as the payload length.
    shifted = refusal(b"\x20" + PRINTED[1:])
    assert (shifted.reason, shifted.facts["need"], shifted.facts["have"]) == (Reject.LENGTH_MISMATCH, 15, 68)
