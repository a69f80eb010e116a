"""Every reason for which EMM-C refuses a packet, one row each: requirement, what is wrong, bytes, reason, place."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.wire.emm_compact.packets import COMMAND, DATAGRAMS, HEARTBEAT, JOIN, NODE, REQUIRED, assemble, field
from weft.wire.emm_compact import decode_untrusted
from weft.wire.reject import BadPacket, Reject


class Case(NamedTuple):
    requirement: str
    what: str
    datagram: bytes
    reason: Reject
    at: int | None = None


TEXT = DATAGRAMS["notification-text"]
SIGNATURE_32 = "fe20" + "00" * 32


def first_byte(byte: int) -> bytes:
    return bytes((byte,)) + TEXT[1:]


def signed(first: str, payload: str) -> bytes:
    """A packet with just that payload, whatever it is."""
    return bytes.fromhex(f"{first}000100020003{len(payload) // 2:02x}{payload}")


def note(body: str) -> bytes:
    return assemble("20", body)


def without(first: str, index: int) -> bytes:
    return assemble(first, *(part for place, part in enumerate(REQUIRED[first]) if place != index))


CASES = [
    # EMC-01: the header
    Case("EMC-01", "empty datagram", b"", Reject.TRUNCATED, 0),
    Case("EMC-01", "seven bytes", TEXT[:7], Reject.TRUNCATED, 7),
    Case("EMC-01", "513 bytes", TEXT + bytes(513 - len(TEXT)), Reject.OVERSIZE),
    Case(
        "EMC-01",
        "512 bytes, which no length byte can announce",
        TEXT + bytes(512 - len(TEXT)),
        Reject.LENGTH_MISMATCH,
        7,
    ),
    Case("EMC-01", "payload of 256 bytes", TEXT + bytes(264 - len(TEXT)), Reject.LENGTH_MISMATCH, 7),
    *(Case("EMC-01", f"version {v}", first_byte(v << 5), Reject.VERSION, 0) for v in (0, 2, 3, 4, 5, 6, 7)),
    Case("EMC-01", "one byte too few", TEXT[:-1], Reject.LENGTH_MISMATCH, 7),
    Case("EMC-01", "one byte too many", TEXT + b"!", Reject.LENGTH_MISMATCH, 7),
    # EMC-02: flags
    Case("EMC-02", "flags 0b10", first_byte(0b001_10_000), Reject.RESERVED_FLAGS, 0),
    Case("EMC-02", "flags 0b11", first_byte(0b001_11_000), Reject.RESERVED_FLAGS, 0),
    # EMC-03: types
    *(Case("EMC-03", f"event type {t}", first_byte(0x20 | t), Reject.EVENT_TYPE, 0) for t in (4, 5, 6, 7)),
    # EMC-05: the signature field
    Case("EMC-05", "no payload", signed("20", ""), Reject.UNSIGNED, 8),
    Case("EMC-05", "begins with another field", signed("20", NODE), Reject.UNSIGNED, 8),
    Case("EMC-05", "type byte alone", signed("20", "fe"), Reject.TLV_OVERRUN, 8),
    Case("EMC-05", "signature cut off", signed("20", "fe20" + "00" * 31), Reject.TLV_OVERRUN, 8),
    Case("EMC-05", "notification with 64 bytes", signed("20", "fe40" + "00" * 64 + "1321"), Reject.TLV_SIZE, 9),
    Case("EMC-05", "notification with 0 bytes", signed("20", "fe00" + "1321"), Reject.TLV_SIZE, 9),
    Case("EMC-05", "command with 32 bytes", signed("21", SIGNATURE_32 + "".join(COMMAND)), Reject.TLV_SIZE, 9),
    Case("EMC-05", "heartbeat with 32 bytes", signed("22", SIGNATURE_32 + "".join(HEARTBEAT)), Reject.TLV_SIZE, 9),
    Case("EMC-05", "join with 16 bytes", signed("23", "fe10" + "00" * 16 + "".join(JOIN)), Reject.TLV_SIZE, 9),
    Case("EMC-05", "second signature", assemble("21", *COMMAND, "fe00"), Reject.TLV_DUPLICATE, 79),
    # EMC-06: notifications
    Case("EMC-06", "no body", note(""), Reject.MISSING_FIELD, 42),
    Case("EMC-06", "no format", note("13"), Reject.MISSING_FIELD, 42),
    *(Case("EMC-06", f"priority {p}", note(p + "24"), Reject.TLV_VALUE, 42) for p in ("00", "10", "18", "1f", "ff")),
    *(Case("EMC-06", f"format {f}", note("13" + f), Reject.TLV_VALUE, 43) for f in ("00", "20", "2b", "2f", "ff")),
    Case("EMC-06", "text: length byte before it", note("13211f41"), Reject.TLV_VALUE, 44),
    Case("EMC-06", "text: NUL behind two-byte letters", note("1321c3a4c3a400"), Reject.TLV_VALUE, 48),
    Case("EMC-06", "text: DEL", note("1321417f"), Reject.TLV_VALUE, 45),
    Case("EMC-06", "text: C1 control U+0085", note("1321c285"), Reject.TLV_VALUE, 44),
    Case("EMC-06", "text: not UTF-8", note("132141ff"), Reject.TLV_VALUE, 45),
    Case("EMC-06", "text: surrogate", note("1321eda080"), Reject.TLV_VALUE, 44),
    Case("EMC-06", "text: cut character", note("1321e282"), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: empty", note("1322"), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: broken", note("1322" + b'{"a":'.hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: two values", note("1322" + b"1 2".hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: NaN", note("1322" + b"NaN".hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: not UTF-8", note("1322" + b'"\xff"'.hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: key not UTF-8", note("1322" + b'{"\xff":1}'.hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: number without end", note("1322" + b"1e999".hex()), Reject.TLV_VALUE, 44),
    Case("EMC-06", "JSON: byte-order mark", note("1322efbbbf31"), Reject.TLV_VALUE, 44),
    # EMC-07 to EMC-09: what must be there, and only once
    Case("EMC-07", "no command name", without("21", 0), Reject.MISSING_FIELD),
    Case("EMC-07", "no parameters", without("21", 1), Reject.MISSING_FIELD),
    Case("EMC-07", "empty name", assemble("21", "b700", "b800"), Reject.TLV_SIZE, 74),
    Case("EMC-07", "name with a line feed", assemble("21", "b702610a", "b800"), Reject.TLV_VALUE, 77),
    Case("EMC-07", "name not UTF-8", assemble("21", "b701ff", "b800"), Reject.TLV_VALUE, 76),
    *(
        Case("EMC-08", f"heartbeat without {HEARTBEAT[i][:2]}", without("22", i), Reject.MISSING_FIELD)
        for i in range(5)
    ),
    *(Case("EMC-09", f"join without {JOIN[i][:2]}", without("23", i), Reject.MISSING_FIELD) for i in range(5)),
    *(
        Case(requirement, f"{part[:2]} twice", assemble(first, *REQUIRED[first], part), Reject.TLV_DUPLICATE)
        for requirement, first in (("EMC-07", "21"), ("EMC-08", "22"), ("EMC-09", "23"))
        for part in REQUIRED[first]
    ),
    Case(
        "EMC-08",
        "rate signal: not zero at the end",
        assemble("22", *HEARTBEAT[:3], "b506000000000001", HEARTBEAT[4]),
        Reject.TLV_VALUE,
    ),
    Case(
        "EMC-08", "propagation map: reserved bit", assemble("22", *HEARTBEAT[:4], "b606000100000000"), Reject.TLV_VALUE
    ),
    # EMC-10: fields that overrun, too many, and topology hints (sizes and ranges: test_fields)
    Case("EMC-10", "field header cut off", assemble("21", *COMMAND, "a9"), Reject.TLV_OVERRUN, 79),
    Case("EMC-10", "value overruns the payload", assemble("21", *COMMAND, "a91000"), Reject.TLV_OVERRUN, 79),
    Case("EMC-10", "65 fields", assemble("21", *COMMAND, *(["5500"] * 63)), Reject.TLV_COUNT),
    Case(
        "EMC-10", "64 fields and a sub-field", assemble("21", *COMMAND, "ad020400", *(["5500"] * 61)), Reject.TLV_COUNT
    ),
    Case("EMC-10", "optional field twice", assemble("21", *COMMAND, "ac0101", "ac0101"), Reject.TLV_DUPLICATE, 82),
    Case("EMC-10", "sub-field overruns the hint", assemble("21", *COMMAND, "ad020210", "5500"), Reject.TLV_OVERRUN, 81),
    Case("EMC-10", "sub-field header cut off", assemble("21", *COMMAND, "ad0102", "0300"), Reject.TLV_OVERRUN, 81),
    Case(
        "EMC-10",
        "peers are no whole ids",
        assemble("21", *COMMAND, field(0xAD, b"\x01\x0f" + bytes(15))),
        Reject.TLV_SIZE,
        81,
    ),
    Case("EMC-10", "hop distance of two bytes", assemble("21", *COMMAND, "ad0402020000"), Reject.TLV_SIZE, 81),
    Case("EMC-10", "region not UTF-8", assemble("21", *COMMAND, "ad030301ff"), Reject.TLV_VALUE, 83),
    Case("EMC-10", "region with a tab", assemble("21", *COMMAND, "ad03030109"), Reject.TLV_VALUE, 83),
    Case("EMC-10", "sub-field twice", assemble("21", *COMMAND, "ad06020101020101"), Reject.TLV_DUPLICATE, 84),
]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.what, marks=pytest.mark.req(case.requirement)) for case in CASES]
)
def test_refused(case: Case) -> None:
    with pytest.raises(BadPacket) as caught:
        decode_untrusted(case.datagram)
    assert caught.value.reason is case.reason
    if case.at is not None:
        assert caught.value.facts["at"] == case.at


@pytest.mark.parametrize(
    "datagram",
    [
        pytest.param(note("1321"), id="empty text"),
        pytest.param(note("1321090a0d20c2a0"), id="tab, line feed, carriage return, no-break space"),
        pytest.param(note("1322" + b' {"a":[1,null]}\n'.hex()), id="JSON in white space"),
        pytest.param(note("1322" + (b"[" * 109 + b"]" * 109).hex()), id="JSON as deep as a packet allows"),
        pytest.param(note("1323" + "ff" * 219), id="opaque message, largest payload"),
        pytest.param(assemble("21", *COMMAND, *(["5500"] * 62)), id="64 fields"),
        pytest.param(assemble("21", *COMMAND, "ad020400", *(["5500"] * 60)), id="63 fields and a sub-field"),
        pytest.param(assemble("21", *COMMAND, "ad00"), id="empty topology hint"),
        pytest.param(assemble("21", *COMMAND, "5500", "5501aa"), id="unknown field twice"),
        pytest.param(assemble("21", *COMMAND, "ad0444004400"), id="unknown sub-field twice"),
    ],
)
@pytest.mark.req("EMC-01", "EMC-06", "EMC-07", "EMC-10")
def test_just_inside_the_rules(datagram: bytes) -> None:
    assert decode_untrusted(datagram).raw == datagram
