"""Capture files: hand-built ones with the bytes shown, those of foreign tools, and hostile ones."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.wire import pcap
from weft.wire.pcap import CAPTURE_INTERFACES_MAX, BadCapture, Skip, UdpPacket, read_untrusted

FOREIGN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "pcap" / "foreign.json").read_text()
)["captures"]


def read(data: bytes) -> tuple[list[UdpPacket], dict[str, int]]:
    skipped: Counter[Skip] = Counter()
    return list(read_untrusted(data, skipped)), {str(why): count for why, count in skipped.items()}


def refusal(data: bytes) -> tuple[int, BadCapture]:
    """How many datagrams came before the damage, and what it is called."""
    packets = 0
    with pytest.raises(BadCapture) as caught:
        for _ in read_untrusted(data, Counter()):
            packets += 1
    return packets, caught.value


def hexes(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts).replace(" ", ""))


# --- by hand ---------------------------------------------------------------------------------------------------------

# ports 40001 and 40002, length 8 + 2, no checksum, "hi"
UDP = hexes("9c41 9c42 000a 0000 6869")
# version 4, 5 words, TOS; 30 bytes; id; no fragment; TTL 64, UDP, no checksum; 10.0.0.1 to 10.0.0.2
IPV4 = hexes("45 00 001e 0000 0000 40 11 0000 0a000001 0a000002")
# version 6; 10 bytes, next header UDP, hop limit 64; 2001:db8::1 to ::2
IPV6 = hexes("60000000 000a 11 40 20010db8000000000000000000000001 00000000000000000000000000000002")
# target, source, type
ETHERNET = hexes("020000000002 020000000001 0800")
FRAME = ETHERNET + IPV4 + UDP

# little-endian microseconds: magic, version 2.4, zone, accuracy, snapshot 65535, Ethernet
CLASSIC = hexes("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000")


def record(frame: bytes, sent: int | None = None) -> bytes:
    """A little-endian record: 1 s, 500,000 fractions, kept, sent."""
    kept = len(frame).to_bytes(4, "little")
    return hexes("01000000 20a10700") + kept + (kept if sent is None else sent.to_bytes(4, "little")) + frame


def link(link_type: int, frame: bytes) -> bytes:
    return CLASSIC[:20] + link_type.to_bytes(4, "little") + record(frame)


def expect_one(data: bytes, source: str = "10.0.0.1", target: str = "10.0.0.2") -> UdpPacket:
    packets, skipped = read(data)
    assert skipped == {}
    (packet,) = packets
    assert packet[1:6] == (source, 40001, target, 40002, b"hi")
    assert data[packet.at : packet.at + 2] == b"hi"
    return packet


@pytest.mark.parametrize(
    ("order", "magic", "fraction"),
    [
        ("little", "d4c3b2a1", 500_000),
        ("little", "4d3cb2a1", 500_000_000),
        ("big", "a1b2c3d4", 500_000),
        ("big", "a1b23c4d", 500_000_000),
    ],
)
def test_byte_orders_and_units(order: Literal["little", "big"], magic: str, fraction: int) -> None:
    version = (2).to_bytes(2, order) + (4).to_bytes(2, order)
    # zone, accuracy, snapshot, Ethernet; then seconds, fraction, kept, sent
    numbers = (0, 0, 65535, 1, 1, fraction, len(FRAME), len(FRAME))
    data = hexes(magic) + version + b"".join(number.to_bytes(4, order) for number in numbers) + FRAME
    packet = expect_one(data)
    assert packet.timestamp_us == 1_500_000
    assert packet.at == 24 + 16 + 14 + 20 + 8


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CLASSIC + record(FRAME + bytes(18)), id="Ethernet padding behind the datagram"),
        pytest.param(CLASSIC + record(ETHERNET[:12] + hexes("8100 0005 0800") + IPV4 + UDP), id="VLAN"),
        pytest.param(CLASSIC + record(ETHERNET[:12] + hexes("88a8 0005 8100 0006 0800") + IPV4 + UDP), id="two VLANs"),
        pytest.param(link(101, IPV4 + UDP), id="raw IP"),
        pytest.param(link(12, IPV4 + UDP), id="raw IP, BSD"),
        pytest.param(link(228, IPV4 + UDP), id="raw IPv4"),
        pytest.param(link(0, hexes("02000000") + IPV4 + UDP), id="null, little-endian"),
        pytest.param(link(0, hexes("00000002") + IPV4 + UDP), id="null, big-endian"),
        pytest.param(link(108, hexes("00000002") + IPV4 + UDP), id="loop"),
        pytest.param(link(113, hexes("0000 0304 0006 0000000000000000 0800") + IPV4 + UDP), id="cooked"),
        pytest.param(link(276, hexes("0800 0000 00000001 0304 00 06 0000000000000000") + IPV4 + UDP), id="cooked 2"),
        pytest.param(
            CLASSIC + record(ETHERNET + hexes("46 00 0022") + IPV4[4:] + hexes("01010100") + UDP), id="IPv4 options"
        ),
        pytest.param(link(0x04000001, FRAME), id="link type with a checksum length above it"),
        pytest.param(CLASSIC + record(FRAME, sent=len(FRAME) - 1), id="kept more than was sent"),
    ],
)
def test_links_to_ipv4(data: bytes) -> None:
    expect_one(data)


def extended(next_header: str, *headers: str) -> bytes:
    """IPv6 with extension headers before the datagram."""
    inner = hexes(*headers) + UDP
    return IPV6[:4] + len(inner).to_bytes(2) + hexes(next_header) + IPV6[7:] + inner


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CLASSIC + record(ETHERNET[:12] + hexes("86dd") + IPV6 + UDP), id="Ethernet"),
        pytest.param(link(229, IPV6 + UDP), id="raw IPv6"),
        pytest.param(link(0, hexes("1e000000") + IPV6 + UDP), id="null, macOS"),
        pytest.param(link(0, hexes("0000001c") + IPV6 + UDP), id="null, FreeBSD, big-endian"),
        pytest.param(link(101, extended("00", "1100 000000000000")), id="hop-by-hop"),
        pytest.param(link(101, extended("3c", "2b01" + "00" * 14, "1100 000000000000")), id="destination, routing"),
        pytest.param(link(101, extended("33", "1104" + "00" * 22)), id="authentication"),
        pytest.param(link(101, extended("2c", "1100 0000 00000001")), id="fragment that is the whole"),
    ],
)
def test_links_to_ipv6(data: bytes) -> None:
    expect_one(data, "2001:db8::1", "::2")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(link(105, FRAME), Skip.LINK_TYPE, id="wireless"),
        pytest.param(CLASSIC + record(ETHERNET[:12] + hexes("0806") + bytes(28)), Skip.NOT_IP, id="ARP"),
        pytest.param(
            CLASSIC + record(ETHERNET[:12] + hexes("8100 0005") * 5 + hexes("0800") + IPV4 + UDP),
            Skip.NOT_IP,
            id="five VLANs",
        ),
        pytest.param(link(0, hexes("00000007") + IPV4), Skip.NOT_IP, id="null, another family"),
        pytest.param(link(101, hexes("00") + IPV4), Skip.NOT_IP, id="raw IP of version 0"),
        pytest.param(link(101, IPV4[:9] + hexes("06") + IPV4[10:] + UDP), Skip.NOT_UDP, id="TCP"),
        pytest.param(link(101, extended("3a")), Skip.NOT_UDP, id="ICMPv6"),
        pytest.param(link(101, IPV4[:6] + hexes("2000") + IPV4[8:] + UDP), Skip.FRAGMENT, id="first fragment"),
        pytest.param(link(101, IPV4[:6] + hexes("0001") + IPV4[8:] + UDP), Skip.FRAGMENT, id="later fragment"),
        pytest.param(link(101, extended("2c", "1100 0001 00000001")), Skip.FRAGMENT, id="first IPv6 fragment"),
        pytest.param(link(101, extended("2c", "1100 0008 00000001")), Skip.FRAGMENT, id="later IPv6 fragment"),
        pytest.param(link(101, extended("2c", "0600 0001 00000001")), Skip.NOT_UDP, id="IPv6 fragment of TCP"),
        pytest.param(CLASSIC + record(FRAME[:-1], sent=len(FRAME)), Skip.CUT, id="snapshot ends in the datagram"),
        pytest.param(CLASSIC + record(FRAME[:20], sent=len(FRAME)), Skip.CUT, id="snapshot ends in the IP header"),
        pytest.param(CLASSIC + record(b"", sent=60), Skip.CUT, id="snapshot of nothing"),
        pytest.param(CLASSIC + record(b""), Skip.MALFORMED, id="packet of nothing"),
        pytest.param(CLASSIC + record(FRAME[:-1]), Skip.MALFORMED, id="IPv4 longer than its frame"),
        pytest.param(CLASSIC + record(ETHERNET[:12] + hexes("8100 00")), Skip.MALFORMED, id="half a VLAN tag"),
        pytest.param(CLASSIC + record(ETHERNET + hexes("65") + IPV4[1:] + UDP), Skip.MALFORMED, id="IPv4 of version 6"),
        pytest.param(link(101, hexes("44") + IPV4[1:] + UDP), Skip.MALFORMED, id="IPv4 of four words"),
        pytest.param(link(101, hexes("45000013") + IPV4[4:]), Skip.MALFORMED, id="IPv4 shorter than its header"),
        pytest.param(link(101, hexes("4500001b") + IPV4[4:] + UDP), Skip.MALFORMED, id="seven bytes of UDP"),
        pytest.param(link(101, IPV4 + hexes("9c41 9c42 0007") + UDP[6:]), Skip.MALFORMED, id="UDP of seven bytes"),
        pytest.param(link(101, IPV4 + hexes("9c41 9c42 000b") + UDP[6:]), Skip.MALFORMED, id="UDP longer than IP"),
        pytest.param(link(229, IPV6[:20]), Skip.MALFORMED, id="half an IPv6 header"),
        pytest.param(link(0, hexes("1e000000 40") + IPV6[1:] + UDP), Skip.MALFORMED, id="IPv6 of version 4"),
        pytest.param(link(101, extended("00", "11ff 000000000000")), Skip.MALFORMED, id="extension overruns"),
        pytest.param(link(101, IPV6[:6] + hexes("00") + IPV6[7:] + UDP[:7]), Skip.MALFORMED, id="IPv6 payload missing"),
        pytest.param(link(101, extended("00", *(["0000 000000000000"] * 20))), Skip.MALFORMED, id="twenty extensions"),
    ],
)
def test_packets_that_give_nothing_are_counted(data: bytes, why: Skip) -> None:
    assert read(data) == ([], {str(why): 1})


def test_reading_goes_on_behind_a_skipped_packet() -> None:
    packets, skipped = read(CLASSIC + record(b"") + record(FRAME) + record(FRAME[:20], sent=60) + record(FRAME))
    assert len(packets) == 2
    assert skipped == {"malformed": 1, "cut": 1}


@pytest.mark.parametrize(
    ("data", "packets", "words"),
    [
        (b"", 0, "neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2", 0, "neither pcap nor pcapng"),
        (b"GIF89a" + bytes(30), 0, "neither pcap nor pcapng"),
        (CLASSIC[:23], 0, "file header is cut off"),
        (CLASSIC[:4] + b"\x03" + CLASSIC[5:], 0, "unknown version"),
        (CLASSIC + record(FRAME) + record(FRAME)[:15], 1, r"last packet is cut off \(at 84, need 16, have 15\)"),
        (CLASSIC + record(FRAME) + record(FRAME)[:-1], 1, r"last packet is cut off \(at 100, need 44, have 43\)"),
        (CLASSIC + hexes("00000000 00000000 ffffffff ffffffff"), 0, "packet is too large"),
    ],
)
def test_damaged_classic_captures(data: bytes, packets: int, words: str) -> None:
    before, error = refusal(data)
    assert before == packets
    with pytest.raises(BadCapture, match=words):
        raise error


def test_a_capture_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcap, "CAPTURE_BYTES_MAX", len(CLASSIC))
    assert read(CLASSIC) == ([], {})
    assert "too large" in str(refusal(CLASSIC + b"\0")[1])


# --- pcapng by hand --------------------------------------------------------------------------------------------------


def block(kind: int, body: bytes, order: Literal["little", "big"] = "little") -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = (12 + len(padded)).to_bytes(4, order)
    return kind.to_bytes(4, order) + size + padded + size


# byte order, version 1.0, section length unknown
SECTION = block(0x0A0D0D0A, hexes("4d3c2b1a 0100 0000 ffffffffffffffff"))
BIG_SECTION = block(0x0A0D0D0A, hexes("1a2b3c4d 0001 0000 ffffffffffffffff"), "big")
# Ethernet, no limit; microseconds
INTERFACE = block(1, hexes("0100 0000 00000000"))


def interface(*options: str, snapshot: str = "00000000") -> bytes:
    return block(1, hexes("0100 0000", snapshot, *options))


def enhanced(ticks: int, frame: bytes = FRAME, number: int = 0, sent: int | None = None) -> bytes:
    sizes = (number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame) if sent is None else sent)
    return block(6, b"".join(size.to_bytes(4, "little") for size in sizes) + frame)


@pytest.mark.parametrize(
    ("options", "ticks", "timestamp_us"),
    [
        pytest.param([], 1_500_000, 1_500_000, id="microseconds unless said otherwise"),
        pytest.param(["0900 0100 09 000000", "0000 0000"], 1_500_000_999, 1_500_000, id="nanoseconds"),
        pytest.param(["0900 0100 83 000000"], 12, 1_500_000, id="eighths of a second"),
        pytest.param(["0900 0100 00 000000"], 3, 3_000_000, id="seconds"),
        pytest.param(["0900 0100 7f 000000"], 1, 0, id="as fine as it gets"),
        pytest.param(["0200 0300 6c6f30 00", "0900 0100 03 000000"], 1500, 1_500_000, id="behind another option"),
        pytest.param(["0e00 0800 6400000000000000"], 7, 100_000_007, id="offset of 100 s"),
        pytest.param(["0000 0000", "0900 0100 00 000000"], 7, 7, id="nothing counts behind the end of options"),
        pytest.param(["0900 0500 00 000000"], 7, 7, id="option longer than its block"),
        pytest.param([], 1 << 40, 1 << 40, id="more than 32 bits"),
    ],
)
def test_timestamps_of_pcapng(options: list[str], ticks: int, timestamp_us: int) -> None:
    packet = expect_one(SECTION + interface(*options) + enhanced(ticks))
    assert packet.timestamp_us == timestamp_us


def test_big_endian_pcapng() -> None:
    body = hexes("00000000 00000000 00000007") + len(FRAME).to_bytes(4) * 2 + FRAME
    data = BIG_SECTION + block(1, hexes("0001 0000 00000000"), "big") + block(6, body, "big")
    assert expect_one(data).timestamp_us == 7


def test_simple_packets_have_no_timestamp() -> None:
    data = SECTION + INTERFACE + block(3, len(FRAME).to_bytes(4, "little") + FRAME)
    assert expect_one(data).timestamp_us is None


def test_simple_packets_are_cut_at_the_limit_of_their_interface() -> None:
    data = SECTION + interface(snapshot="1e000000") + block(3, len(FRAME).to_bytes(4, "little") + FRAME[:30])
    assert read(data) == ([], {"cut": 1})


def test_several_interfaces_and_unknown_blocks() -> None:
    raw = block(1, hexes("6500 0000 00000000"))
    data = (
        SECTION + INTERFACE + raw + block(0x0BAD, b"secret") + enhanced(1, IPV4 + UDP, number=1) + block(5, bytes(12))
    )
    expect_one(data)


def test_a_new_section_has_new_interfaces() -> None:
    first = SECTION + INTERFACE + enhanced(1)
    assert len(read(first + first)[0]) == 2
    packets, error = refusal(first + SECTION + enhanced(1))
    assert packets == 1
    assert "unknown interface" in str(error)


@pytest.mark.parametrize(
    ("data", "packets", "words"),
    [
        pytest.param(SECTION[:8] + hexes("00000000") + SECTION[12:], 0, "without a byte order", id="byte order"),
        pytest.param(SECTION + INTERFACE + enhanced(1) + enhanced(1)[:-1], 1, "last block is cut off", id="cut off"),
        pytest.param(SECTION + INTERFACE[:11], 0, "last block is cut off", id="cut in its head"),
        pytest.param(SECTION + hexes("01000000 0b000000 00000000"), 0, "impossible block length", id="length 11"),
        pytest.param(SECTION + hexes("01000000 0d000000") + bytes(9), 0, "impossible block length", id="length 13"),
        pytest.param(SECTION + hexes("01000000 ffffffff") + bytes(9), 0, "impossible block length", id="length 2^32-1"),
        pytest.param(SECTION + hexes("01000000 fcffffff") + bytes(9), 0, "last block is cut off", id="length 2^32-4"),
        pytest.param(SECTION + INTERFACE[:-4] + bytes(4), 0, "another length than it began with", id="lengths differ"),
        pytest.param(SECTION + block(1, bytes(4)), 0, "block is too short", id="interface too short"),
        pytest.param(SECTION + enhanced(1), 0, "unknown interface", id="no interface"),
        pytest.param(SECTION + INTERFACE + block(6, bytes(16)), 0, "block is too short", id="packet too short"),
        pytest.param(
            SECTION + INTERFACE + block(6, bytes(12) + hexes("05000000 05000000") + b"four"),
            0,
            "block is too short",
            id="packet longer than its block",
        ),
        pytest.param(
            SECTION + INTERFACE + block(6, bytes(12) + hexes("ffffffff ffffffff")), 0, "packet is too large", id="4 GiB"
        ),
        pytest.param(SECTION + block(3, bytes(4)), 0, "before any interface", id="simple packet without interface"),
        pytest.param(SECTION + INTERFACE + block(3, b""), 0, "block is too short", id="simple packet of nothing"),
        pytest.param(
            SECTION + INTERFACE + block(3, hexes("05000000") + b"four"), 0, "too short", id="simple packet too long"
        ),
        pytest.param(
            SECTION + interface("0900 0100 00 000000") + enhanced((1 << 64) - 1), 0, "timestamp", id="far future"
        ),
        pytest.param(SECTION + interface("0e00 0800 ffffffffffffffff") + enhanced(1), 0, "timestamp", id="before 1970"),
        pytest.param(
            SECTION + INTERFACE * (CAPTURE_INTERFACES_MAX + 1), 0, "too many interfaces", id="many interfaces"
        ),
    ],
)
def test_damaged_pcapng_captures(data: bytes, packets: int, words: str) -> None:
    before, error = refusal(data)
    assert before == packets
    with pytest.raises(BadCapture, match=words):
        raise error


# --- foreign tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", FOREIGN, ids=[capture["name"] for capture in FOREIGN])
def test_captures_of_foreign_tools(capture: dict[str, Any]) -> None:
    data = bytes.fromhex(capture["hex"])
    packets, skipped = read(data)
    assert [{**p._asdict(), "payload": p.payload.hex(), "at": None} for p in packets] == [
        {**expected, "at": None} for expected in capture["packets"]
    ]
    assert skipped == capture["skipped"]


# --- anything --------------------------------------------------------------------------------------------------------

STARTS = [CLASSIC, CLASSIC + record(FRAME), SECTION, SECTION + INTERFACE + enhanced(1), BIG_SECTION, b""]


@given(st.sampled_from(STARTS), st.binary(max_size=100))
@settings(max_examples=300)
def test_any_bytes_are_read_or_refused(start: bytes, rest: bytes) -> None:
    skipped: Counter[Skip] = Counter()
    try:
        for packet in read_untrusted(start + rest, skipped):
            assert (start + rest)[packet.at : packet.at + len(packet.payload)] == packet.payload
    except BadCapture:
        return


@given(st.sampled_from(FOREIGN), st.data())
@settings(max_examples=200)
def test_damaged_captures_are_read_or_refused(capture: dict[str, Any], data: st.DataObject) -> None:
    damaged = bytearray.fromhex(capture["hex"])
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        read(bytes(damaged))
    except BadCapture:
        return


@given(st.sampled_from(FOREIGN), st.data())
def test_a_capture_cut_anywhere_gives_what_came_before(capture: dict[str, Any], data: st.DataObject) -> None:
    whole = bytes.fromhex(capture["hex"])
    cut = data.draw(st.integers(0, len(whole) - 1))
    found: list[UdpPacket] = []
    with suppress(BadCapture):
        for packet in read_untrusted(whole[:cut], Counter()):
            found.append(packet)
    assert found == read(whole)[0][: len(found)]
