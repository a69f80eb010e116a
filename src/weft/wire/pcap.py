"""UDP datagrams out of a capture file: classic pcap and pcapng, as tcpdump and Wireshark write them.

The file is in memory, at most CAPTURE_BYTES_MAX of it. Whatever it holds, reading it is linear in its size and raises
only BadCapture; datagrams before the damage have been given out by then. Packets that hold no whole UDP datagram are
skipped, and counted by why:

    skipped: Counter[Skip] = Counter()
    for packet in read_untrusted(capture, skipped): ...

Checksums are not verified: packets captured where they were sent often have none yet. Why not dpkt: ADR 51.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from weft.errors import PeerError
from weft.limits import CAPTURE_BYTES_MAX, KIB

CAPTURE_PACKET_BYTES_MAX: Final = 256 * KIB  # tcpdump's largest snapshot length
CAPTURE_INTERFACES_MAX: Final = 1024  # per section of a pcapng file; each costs memory
CAPTURE_VLAN_TAGS_MAX: Final = 4  # stacked tags; two are common
CAPTURE_EXTENSION_HEADERS_MAX: Final = 8  # of IPv6, in one packet; more than two are rare


class BadCapture(PeerError):
    """The file is no capture, or a damaged one; ``at`` says where in it."""


class Skip(StrEnum):
    """Why a packet gave no datagram. The values are metric labels: append, never rename."""

    LINK_TYPE = "link-type"  # a kind of network this reader does not know
    NOT_IP = "not-ip"
    NOT_UDP = "not-udp"
    FRAGMENT = "fragment"
    CUT = "cut"  # the capture kept less of the packet than was sent
    MALFORMED = "malformed"  # headers that contradict themselves


class UdpPacket(NamedTuple):
    """One datagram; ``at`` is where its payload begins in the file. A tuple, because captures hold millions."""

    timestamp_us: int | None  # since 1970; None where the file does not say (simple packet blocks)
    source: str
    source_port: int
    target: str
    target_port: int
    payload: bytes
    at: int


def read_untrusted(data: bytes, skipped: Counter[Skip]) -> Iterator[UdpPacket]:
    """The UDP datagrams of a capture, in its order; raise only BadCapture, at the damage."""
    for record in _records(data):
        try:
            yield _datagram(data, record)
        except _Skipped as skip:
            skipped[skip.why] += 1


class _Skipped(Exception):
    """The way out of a packet that gives no datagram; never seen outside of this module."""

    def __init__(self, why: Skip) -> None:
        self.why = why


# --- files: from bytes to captured packets -------------------------------------------------------------------------


class _Record(NamedTuple):
    """One captured packet: ``data[at:end]`` is what was kept of it; ``whole`` unless that is less than was sent."""

    timestamp_us: int | None
    link_type: int
    at: int
    end: int
    whole: bool


# The first four bytes tell the byte order and how many of its units of time make a microsecond.
CLASSIC_MAGICS: Final = {
    bytes.fromhex("a1b2c3d4"): (">", 1),
    bytes.fromhex("d4c3b2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1000),
}
SECTION_MAGIC: Final = bytes.fromhex("0a0d0d0a")  # reads the same in both byte orders
BYTE_ORDERS: Final = {bytes.fromhex("1a2b3c4d"): ">", bytes.fromhex("4d3c2b1a"): "<"}

INTERFACE_BLOCK, SIMPLE_PACKET_BLOCK, ENHANCED_PACKET_BLOCK = 1, 3, 6
OPTION_END, OPTION_RESOLUTION, OPTION_OFFSET = 0, 9, 14

TIMESTAMP_US_MAX: Final = (1 << 63) - 1  # what readers behind us keep


def _records(data: bytes) -> Iterator[_Record]:
    if len(data) > CAPTURE_BYTES_MAX:
        raise BadCapture("capture is too large", have=len(data), limit=CAPTURE_BYTES_MAX)
    magic = data[:4]
    if magic in CLASSIC_MAGICS:
        return _classic_records(data, *CLASSIC_MAGICS[magic])
    if magic == SECTION_MAGIC:
        return _sections(data)
    raise BadCapture("neither pcap nor pcapng", at=0, magic=magic.hex())


def _classic_records(data: bytes, order: str, units_per_us: int) -> Iterator[_Record]:
    # magic:u32 major:u16 minor:u16 zone:i32 accuracy:u32 snapshot:u32 link_type:u32 (its upper half is about checksums)
    header = struct.Struct(order + "4sHHiIII")
    # seconds:u32 fraction:u32 kept:u32 sent:u32
    record = struct.Struct(order + "IIII")
    _need(data, 0, header.size, "file header is cut off")
    _, major, _, _, _, _, link_type = header.unpack_from(data)
    if major != 2:
        raise BadCapture("unknown version of pcap", at=4, major=major)
    at = header.size
    while at < len(data):
        _need(data, at, record.size, "last packet is cut off")
        seconds, fraction, kept, sent = record.unpack_from(data, at)
        packet_at = at + record.size
        _check_kept(kept, at)
        _need(data, packet_at, kept, "last packet is cut off")
        at = packet_at + kept
        yield _Record(
            seconds * 1_000_000 + fraction // units_per_us, link_type & 0xFFFF, packet_at, at, whole=kept >= sent
        )


class _Interface(NamedTuple):
    """Where packets of a pcapng section were captured."""

    link_type: int
    snapshot_bytes: int  # 0: no limit
    ticks_per_s: int
    offset_s: int

    def timestamp_us(self, ticks: int, at: int) -> int:
        timestamp_us = ticks * 1_000_000 // self.ticks_per_s + self.offset_s * 1_000_000
        if not 0 <= timestamp_us <= TIMESTAMP_US_MAX:
            raise BadCapture("timestamp is out of range", at=at, us=timestamp_us)
        return timestamp_us


class _Block(NamedTuple):
    """One block of a pcapng file; ``body_at`` and ``body_end`` leave out its type and its two lengths."""

    type: int
    at: int
    body_at: int
    body_end: int
    order: str


def _sections(data: bytes) -> Iterator[_Record]:
    interfaces: list[_Interface] = []
    for block in _blocks(data):
        if block.type == ENHANCED_PACKET_BLOCK:
            yield _enhanced_record(data, block, interfaces)
        elif block.type == SIMPLE_PACKET_BLOCK:
            yield _simple_record(data, block, interfaces)
        elif block.type == INTERFACE_BLOCK:
            if len(interfaces) == CAPTURE_INTERFACES_MAX:
                raise BadCapture("too many interfaces", at=block.at, limit=CAPTURE_INTERFACES_MAX)
            interfaces.append(_interface(data, block))
        elif data[block.at : block.at + 4] == SECTION_MAGIC:
            interfaces = []


def _blocks(data: bytes) -> Iterator[_Block]:
    # kind:u32 length:u32 body length:u32; the length counts all of it
    at, order = 0, "<"
    while at < len(data):
        _need(data, at, 12, "last block is cut off")
        if data[at : at + 4] == SECTION_MAGIC:
            found = BYTE_ORDERS.get(data[at + 8 : at + 12])
            if found is None:
                raise BadCapture("section without a byte order", at=at + 8)
            order = found
        words = struct.Struct(order + "II")
        block_type, length = words.unpack_from(data, at)
        if length < 12 or length % 4:
            raise BadCapture("impossible block length", at=at + 4, length=length)
        _need(data, at, length, "last block is cut off")
        end = at + length
        if data[end - 4 : end] != data[at + 4 : at + 8]:
            raise BadCapture("block ends with another length than it began with", at=end - 4)
        yield _Block(block_type, at, at + 8, end - 4, order)
        at = end


def _interface(data: bytes, block: _Block) -> _Interface:
    # link_type:u16 reserved:u16 snapshot:u32, then options of code:u16 length:u16 value, padded to four bytes
    fixed = struct.Struct(block.order + "HHI")
    option = struct.Struct(block.order + "HH")
    _need_in_block(block, fixed.size)
    link_type, _, snapshot_bytes = fixed.unpack_from(data, block.body_at)
    ticks_per_s, offset_s = 1_000_000, 0
    at = block.body_at + fixed.size
    while at + option.size <= block.body_end:
        code, length = option.unpack_from(data, at)
        value = data[at + option.size : min(at + option.size + length, block.body_end)]
        if code == OPTION_END:
            break
        if code == OPTION_RESOLUTION and len(value) == 1:
            ticks_per_s = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == OPTION_OFFSET and len(value) == 8:
            offset_s = struct.unpack(block.order + "q", value)[0]
        at += option.size + length + -length % 4
    return _Interface(link_type, snapshot_bytes, ticks_per_s, offset_s)


def _enhanced_record(data: bytes, block: _Block, interfaces: list[_Interface]) -> _Record:
    # interface:u32 ticks_high:u32 ticks_low:u32 kept:u32 sent:u32
    fixed = struct.Struct(block.order + "IIIII")
    _need_in_block(block, fixed.size)
    number, high, low, kept, sent = fixed.unpack_from(data, block.body_at)
    if number >= len(interfaces):
        raise BadCapture("packet of an unknown interface", at=block.body_at, interface=number, have=len(interfaces))
    _check_kept(kept, block.at)
    _need_in_block(block, fixed.size + kept)
    interface, at = interfaces[number], block.body_at + fixed.size
    timestamp_us = interface.timestamp_us(high << 32 | low, block.body_at + 4)
    return _Record(timestamp_us, interface.link_type, at, at + kept, whole=kept >= sent)


def _simple_record(data: bytes, block: _Block, interfaces: list[_Interface]) -> _Record:
    # sent:u32; how much was kept follows from the interface's limit
    fixed = struct.Struct(block.order + "I")
    _need_in_block(block, fixed.size)
    (sent,) = fixed.unpack_from(data, block.body_at)
    if not interfaces:
        raise BadCapture("packet before any interface", at=block.at)
    kept = min(sent, interfaces[0].snapshot_bytes or sent)
    _check_kept(kept, block.at)
    _need_in_block(block, fixed.size + kept)
    at = block.body_at + fixed.size
    return _Record(None, interfaces[0].link_type, at, at + kept, whole=kept >= sent)


def _need(data: bytes, at: int, size: int, what: str) -> None:
    if len(data) - at < size:
        raise BadCapture(what, at=at, need=size, have=len(data) - at)


def _need_in_block(block: _Block, size: int) -> None:
    if block.body_end - block.body_at < size:
        raise BadCapture("block is too short", at=block.at, need=size, have=block.body_end - block.body_at)


def _check_kept(kept: int, at: int) -> None:
    if kept > CAPTURE_PACKET_BYTES_MAX:
        raise BadCapture("packet is too large", at=at, have=kept, limit=CAPTURE_PACKET_BYTES_MAX)


# --- packets: from a link's frame to a datagram ----------------------------------------------------------------------

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
ETHERTYPES_VLAN: Final = frozenset({0x8100, 0x88A8, 0x9100})

LINK_ETHERNET, LINK_NULL, LINK_LOOP, LINK_COOKED, LINK_COOKED_2 = 1, 0, 108, 113, 276
LINKS_IP: Final = frozenset({12, 14, 101, 228, 229})  # no header at all; 12 and 14 are BSD's numbers for 101

FAMILY_IPV4: Final = 2
FAMILIES_IPV6: Final = frozenset({10, 23, 24, 28, 30})  # Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS

PROTOCOL_UDP: Final = 17
EXTENSION_FRAGMENT: Final = 44
EXTENSION_AUTHENTICATION: Final = 51
EXTENSIONS: Final = frozenset({0, 43, EXTENSION_FRAGMENT, EXTENSION_AUTHENTICATION, 60, 135, 139, 140})

# version:4 ihl:4, tos:u8, total:u16, id:u16, flags:3 fragment:13, ttl:u8, protocol:u8, checksum:u16, two addresses
IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
IPV4_FRAGMENT_MASK: Final = 0x3FFF  # "more fragments" and the offset
# version:4 class:8 flow:20, payload_length:u16, next_header:u8, hop_limit:u8, two addresses
IPV6: Final = struct.Struct("!IHBB16s16s")
# next_header:u8 length:u8 (of eight bytes, not counting the first), or for a fragment: offset:13 reserved:2 more:1
EXTENSION: Final = struct.Struct("!BBH4x")
# source_port:u16 target_port:u16 length:u16 checksum:u16
UDP: Final = struct.Struct("!HHHH")


def _datagram(data: bytes, record: _Record) -> UdpPacket:
    ethertype, at = _network(data, record)
    if ethertype == ETHERTYPE_IPV4:
        source, target, at, end = _ipv4(data, record, at)
    elif ethertype == ETHERTYPE_IPV6:
        source, target, at, end = _ipv6(data, record, at)
    else:
        raise _Skipped(Skip.NOT_IP)
    if end - at < UDP.size:
        raise _Skipped(Skip.MALFORMED)
    source_port, target_port, length, _ = UDP.unpack_from(data, at)
    if not UDP.size <= length <= end - at:
        raise _Skipped(Skip.MALFORMED)
    payload_at = at + UDP.size
    return UdpPacket(
        record.timestamp_us, source, source_port, target, target_port, data[payload_at : at + length], payload_at
    )


def _network(data: bytes, record: _Record) -> tuple[int, int]:
    """What the link says it carries, as an Ethernet type, and where that begins."""
    at, link_type = record.at, record.link_type
    if link_type in LINKS_IP:
        _need_in_packet(record, at, 1)
        return {4: ETHERTYPE_IPV4, 6: ETHERTYPE_IPV6}.get(data[at] >> 4, 0), at
    if link_type in (LINK_NULL, LINK_LOOP):
        _need_in_packet(record, at, 4)
        # LINK_NULL has the byte order of the machine that captured; families are small, so the other order is not one.
        families = {int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at : at + 4], "little")}
        if FAMILY_IPV4 in families:
            return ETHERTYPE_IPV4, at + 4
        return (ETHERTYPE_IPV6 if families & FAMILIES_IPV6 else 0), at + 4
    if link_type == LINK_ETHERNET:
        return _ethertype(data, record, type_at=at + 12, at=at + 14)
    if link_type == LINK_COOKED:
        return _ethertype(data, record, type_at=at + 14, at=at + 16)
    if link_type == LINK_COOKED_2:
        return _ethertype(data, record, type_at=at, at=at + 20)
    raise _Skipped(Skip.LINK_TYPE)


def _ethertype(data: bytes, record: _Record, type_at: int, at: int) -> tuple[int, int]:
    """The Ethernet type at ``type_at`` and where its content begins, behind VLAN tags (tag:u16 type:u16) at ``at``."""
    _need_in_packet(record, record.at, at - record.at)
    ethertype = int.from_bytes(data[type_at : type_at + 2])
    for _ in range(CAPTURE_VLAN_TAGS_MAX):
        if ethertype not in ETHERTYPES_VLAN:
            break
        _need_in_packet(record, at, 4)
        ethertype = int.from_bytes(data[at + 2 : at + 4])
        at += 4
    return ethertype, at


def _ipv4(data: bytes, record: _Record, at: int) -> tuple[str, str, int, int]:
    _need_in_packet(record, at, IPV4.size)
    first, _, total, _, fragment, _, protocol, _, source, target = IPV4.unpack_from(data, at)
    header_bytes = (first & 0x0F) * 4
    if first >> 4 != 4 or not IPV4.size <= header_bytes <= total:
        raise _Skipped(Skip.MALFORMED)
    if protocol != PROTOCOL_UDP:
        raise _Skipped(Skip.NOT_UDP)
    if fragment & IPV4_FRAGMENT_MASK:
        raise _Skipped(Skip.FRAGMENT)
    _need_in_packet(record, at, total)
    return _dotted(source), _dotted(target), at + header_bytes, at + total


def _dotted(address: bytes) -> str:
    return ".".join(map(str, address))  # ipaddress takes twice as long


def _ipv6(data: bytes, record: _Record, at: int) -> tuple[str, str, int, int]:
    _need_in_packet(record, at, IPV6.size)
    first, payload_bytes, next_header, _, source, target = IPV6.unpack_from(data, at)
    if first >> 28 != 6:
        raise _Skipped(Skip.MALFORMED)
    at += IPV6.size
    _need_in_packet(record, at, payload_bytes)
    end = at + payload_bytes
    for _ in range(CAPTURE_EXTENSION_HEADERS_MAX):
        if next_header not in EXTENSIONS:
            break
        if end - at < EXTENSION.size:
            raise _Skipped(Skip.MALFORMED)
        this_header, (next_header, length, fragment) = next_header, EXTENSION.unpack_from(data, at)
        if this_header == EXTENSION_FRAGMENT:
            if fragment & ~0b110:
                raise _Skipped(Skip.FRAGMENT if next_header == PROTOCOL_UDP else Skip.NOT_UDP)
            length = 0
        at += (length + 2) * 4 if this_header == EXTENSION_AUTHENTICATION else (length + 1) * 8
    if next_header != PROTOCOL_UDP:
        raise _Skipped(Skip.MALFORMED if next_header in EXTENSIONS else Skip.NOT_UDP)
    return str(IPv6Address(source)), str(IPv6Address(target)), at, end


def _need_in_packet(record: _Record, at: int, size: int) -> None:
    if record.end - at < size:
        raise _Skipped(Skip.MALFORMED if record.whole else Skip.CUT)
