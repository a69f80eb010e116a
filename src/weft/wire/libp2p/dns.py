"""DNS packets as multicast DNS sends them (RFC 1035, 4; RFC 6762): questions and answers only (ADR 51)."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import DNS_LABEL_BYTES_MAX, DNS_NAME_BYTES_MAX, MDNS_PACKET_BYTES_MAX
from weft.wire.libp2p.errors import BadFrame

MDNS_RECORDS_MAX: Final = 64  # read from one packet; a busy responder answers with a few dozen
DNS_LABELS_MAX: Final = 32  # of one name; with the bounds above, a few thousand steps for the worst packet
DNS_POINTERS_MAX: Final = 16  # followed within one name: honest writers need one or two


Name = tuple[bytes, ...]  # labels; compared as they are, since a label may itself contain a dot
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# id:u16 flags:u16 questions:u16 answers:u16 authorities:u16 additionals:u16
HEADER = struct.Struct("!6H")
# type:u16 class:u16, after the name
QUESTION_TAIL = struct.Struct("!2H")
# type:u16 class:u16 ttl:u32 data_length:u16, after the name
RECORD_TAIL = struct.Struct("!2HIH")
# priority:u16 weight:u16 port:u16, then the target's name
SRV_HEAD = struct.Struct("!3H")
POINTER = struct.Struct("!H")

FLAG_RESPONSE = 0x8000
FLAG_AUTHORITATIVE = 0x0400
CLASS_INTERNET = 1
TTL_S = 120
POINTER_MARK = 0xC0


class Type(IntEnum):
    A = 1
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33
    ANY = 255


@dataclass(frozen=True, slots=True)
class Ptr:
    target: Name


@dataclass(frozen=True, slots=True)
class Srv:
    priority: int
    weight: int
    port: int
    target: Name


@dataclass(frozen=True, slots=True)
class Txt:
    strings: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Address:
    ip: IpAddress


Data = Ptr | Srv | Txt | Address


@dataclass(frozen=True, slots=True)
class Question:
    name: Name
    type: int


@dataclass(frozen=True, slots=True)
class Record:
    name: Name
    data: Data


@dataclass(frozen=True, slots=True)
class Packet:
    """A question or an answer. Records of types that are not in Type are left out when reading."""

    is_response: bool
    questions: tuple[Question, ...] = ()
    answers: tuple[Record, ...] = ()


def name(text: str) -> Name:
    """The labels of a dotted name; raise UsageError if one does not fit."""
    try:
        labels = tuple(label.encode() for label in text.split("."))
    except UnicodeEncodeError as error:
        raise UsageError(f"DNS name cannot be written as UTF-8: {error.reason}", at=error.start) from None
    for label in labels:
        if not 0 < len(label) <= DNS_LABEL_BYTES_MAX:
            raise UsageError("not a DNS label", have=repr(label.decode()), bytes=len(label), limit=DNS_LABEL_BYTES_MAX)
    if len(labels) > DNS_LABELS_MAX:
        raise UsageError("DNS name has too many labels", have=len(labels), limit=DNS_LABELS_MAX)
    size = sum(len(label) + 1 for label in labels) + 1
    if size > DNS_NAME_BYTES_MAX:
        raise UsageError("DNS name is too long", have=size, limit=DNS_NAME_BYTES_MAX)
    return labels


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(packet: Packet) -> bytes:
    flags = FLAG_RESPONSE | FLAG_AUTHORITATIVE if packet.is_response else 0
    out = bytearray(HEADER.pack(0, flags, len(packet.questions), len(packet.answers), 0, 0))
    for question in packet.questions:
        out += _encode_name(question.name) + QUESTION_TAIL.pack(question.type, CLASS_INTERNET)
    for record in packet.answers:
        kind, data = _encode_data(record.data)
        out += _encode_name(record.name) + RECORD_TAIL.pack(kind, CLASS_INTERNET, TTL_S, len(data)) + data
    if len(out) > MDNS_PACKET_BYTES_MAX:
        raise UsageError("mDNS packet is too long", have=len(out), limit=MDNS_PACKET_BYTES_MAX)
    return bytes(out)


def _encode_name(labels: Name) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def _encode_data(data: Data) -> tuple[Type, bytes]:
    match data:
        case Ptr(target):
            return Type.PTR, _encode_name(target)
        case Srv(priority, weight, port, target):
            return Type.SRV, SRV_HEAD.pack(priority, weight, port) + _encode_name(target)
        case Txt(strings):
            return Type.TXT, b"".join(bytes((len(string),)) + string for string in strings)
        case Address(ip):
            return (Type.A if ip.version == 4 else Type.AAAA), ip.packed


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_untrusted(packet: bytes) -> Packet:
    """The questions and answers of a packet from anybody; raise only BadFrame."""
    if not HEADER.size <= len(packet) <= MDNS_PACKET_BYTES_MAX:
        raise BadFrame("not a DNS packet", have=len(packet), least=HEADER.size, most=MDNS_PACKET_BYTES_MAX)
    _, flags, question_count, answer_count, _, _ = HEADER.unpack_from(packet)
    if question_count + answer_count > MDNS_RECORDS_MAX:
        raise BadFrame("too many records", have=question_count + answer_count, limit=MDNS_RECORDS_MAX)
    questions: list[Question] = []
    answers: list[Record] = []
    at = HEADER.size
    for _ in range(question_count):
        labels, at = _read_name_untrusted(packet, at)
        _check_room(packet, at, QUESTION_TAIL.size)
        kind, _ = QUESTION_TAIL.unpack_from(packet, at)
        at += QUESTION_TAIL.size
        questions.append(Question(labels, kind))
    for _ in range(answer_count):
        labels, at = _read_name_untrusted(packet, at)
        _check_room(packet, at, RECORD_TAIL.size)
        kind, _, _, length = RECORD_TAIL.unpack_from(packet, at)
        at += RECORD_TAIL.size
        _check_room(packet, at, length)
        data = _read_data_untrusted(packet, kind, at, at + length)
        at += length
        if data is not None:
            answers.append(Record(labels, data))
    return Packet(bool(flags & FLAG_RESPONSE), tuple(questions), tuple(answers))


def _read_data_untrusted(packet: bytes, kind: int, at: int, end: int) -> Data | None:
    """The data of a record that fills ``packet[at:end]`` exactly; None for a type that we do not use."""
    if kind == Type.A or kind == Type.AAAA:
        need = 4 if kind == Type.A else 16
        if end - at != need:
            raise BadFrame("address has the wrong length", at=at, need=need, have=end - at)
        return Address(ipaddress.ip_address(packet[at:end]))
    if kind == Type.TXT:
        return Txt(_read_strings_untrusted(packet, at, end))
    if kind == Type.PTR:
        return Ptr(_read_last_name_untrusted(packet, at, end))
    if kind == Type.SRV:
        if end - at < SRV_HEAD.size:
            raise BadFrame("service record is cut off", at=at, need=SRV_HEAD.size, have=end - at)
        priority, weight, port = SRV_HEAD.unpack_from(packet, at)
        return Srv(priority, weight, port, _read_last_name_untrusted(packet, at + SRV_HEAD.size, end))
    return None


def _read_strings_untrusted(packet: bytes, at: int, end: int) -> tuple[bytes, ...]:
    strings = []
    while at < end:
        length = packet[at]
        if at + 1 + length > end:
            raise BadFrame("text overruns its record", at=at, need=length, have=end - at - 1)
        strings.append(packet[at + 1 : at + 1 + length])
        at += 1 + length
    return tuple(strings)


def _read_last_name_untrusted(packet: bytes, at: int, end: int) -> Name:
    labels, name_end = _read_name_untrusted(packet, at)
    if name_end != end:
        raise BadFrame("name does not fill its record", at=at, need=end - at, have=name_end - at)
    return labels


def _read_name_untrusted(packet: bytes, at: int) -> tuple[Name, int]:
    """The name at ``at`` and where it ends there. Pointers may only point backwards, and so never run in circles."""
    labels: list[bytes] = []
    size = 1
    end: int | None = None
    run_at = at  # where the labels being read began: a pointer must lead to before it
    pointers = 0
    while True:
        _check_room(packet, at, 1)
        length = packet[at]
        if length >= POINTER_MARK:
            _check_room(packet, at, POINTER.size)
            target = POINTER.unpack_from(packet, at)[0] & 0x3FFF
            pointers += 1
            if target >= run_at or pointers > DNS_POINTERS_MAX:
                raise BadFrame("name runs in circles", at=at, target=target, limit=DNS_POINTERS_MAX)
            end = at + POINTER.size if end is None else end
            at = run_at = target
        elif length > DNS_LABEL_BYTES_MAX:
            raise BadFrame("unknown kind of label", at=at, mark=hex(length))
        elif length == 0:
            return tuple(labels), at + 1 if end is None else end
        else:
            size += 1 + length
            if size > DNS_NAME_BYTES_MAX or len(labels) == DNS_LABELS_MAX:
                raise BadFrame("name is too long", at=at, limit=DNS_NAME_BYTES_MAX, labels_limit=DNS_LABELS_MAX)
            _check_room(packet, at + 1, length)
            labels.append(packet[at + 1 : at + 1 + length])
            at += 1 + length


def _check_room(packet: Sequence[int], at: int, need: int) -> None:
    if at + need > len(packet):
        raise BadFrame("DNS packet is cut off", at=at, need=need, have=len(packet) - at)
