from __future__ import annotations

import contextlib
import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.wire.libp2p import dns
from weft.wire.libp2p.dns import Address, Packet, Ptr, Question, Record, Srv, Txt, Type
from weft.wire.libp2p.errors import BadFrame

NAME = (b"service", b"local")


def header(questions: int = 0, answers: int = 0, flags: int = 0x8400) -> bytes:
    return struct.pack("!6H", 0, flags, questions, answers, 0, 0)


def record(kind: int, data: bytes, name: bytes = b"\x01n\0") -> bytes:
    return name + struct.pack("!2HIH", kind, 1, 120, len(data)) + data


def test_names_are_read_through_pointers() -> None:
    # RFC 1035, 4.1.4: F.ISI.ARPA at 20, FOO.F.ISI.ARPA as FOO and a pointer, ARPA as a pointer to 26, the root at 92.
    names = bytearray(93)
    names[20:32] = b"\x01F\x03ISI\x04ARPA\x00"
    names[40:46] = b"\x03FOO\xc0\x14"
    names[64:66] = b"\xc0\x1a"
    packet = bytes(names)
    assert dns._read_name_untrusted(packet, 20) == ((b"F", b"ISI", b"ARPA"), 32)
    assert dns._read_name_untrusted(packet, 40) == ((b"FOO", b"F", b"ISI", b"ARPA"), 46)
    assert dns._read_name_untrusted(packet, 64) == ((b"ARPA",), 66)
    assert dns._read_name_untrusted(packet, 92) == ((), 93)


labels = st.lists(st.binary(min_size=1, max_size=63), min_size=1, max_size=3).map(tuple)
data = st.one_of(
    st.builds(Ptr, labels),
    st.builds(Srv, *[st.integers(0, 65535)] * 3, labels),
    st.builds(Txt, st.lists(st.binary(max_size=255), max_size=3).map(tuple)),
    st.builds(Address, st.ip_addresses()),
)
packets = st.builds(
    Packet,
    st.booleans(),
    st.lists(st.builds(Question, labels, st.integers(0, 65535)), max_size=3).map(tuple),
    st.lists(st.builds(Record, labels, data), max_size=4).map(tuple),
)


@given(packets)
def test_round_trip(packet: Packet) -> None:
    assert dns.decode_untrusted(dns.encode(packet)) == packet


def test_other_record_types_are_skipped() -> None:
    packet = header(answers=2) + record(47, b"whatever") + record(Type.A, bytes([192, 0, 2, 7]))
    assert dns.decode_untrusted(packet).answers == (Record((b"n",), Address(ipaddress.IPv4Address("192.0.2.7"))),)


def test_what_follows_the_answers_is_not_looked_at() -> None:
    assert dns.decode_untrusted(header() + b"additional rubbish") == Packet(is_response=True)


@pytest.mark.req("COA-02")
@pytest.mark.parametrize(
    "name",
    [
        b"\xc0\x0c",  # to itself
        b"\x01a\xc0\x0c",  # to its own beginning
        b"\xc0\x0e\xc0\x0c",  # forwards, then back
        b"\xc0\x20",  # forwards
        b"\xff\xff",  # far out
    ],
)
def test_name_compression_loops(name: bytes) -> None:
    with pytest.raises(BadFrame, match="circles"):
        dns.decode_untrusted(header(questions=1) + name + bytes(40))


@pytest.mark.req("COA-02")
def test_a_long_chain_of_pointers() -> None:
    # The root at 0, then pointers at 1, 3, 5, .., each to the one before it.
    packet = b"\0" + b"".join(struct.pack("!H", 0xC000 | max(0, at - 2)) for at in range(1, 40, 2))
    assert dns._read_name_untrusted(packet, 1 + 2 * 15) == ((), 1 + 2 * 16)
    with pytest.raises(BadFrame, match="circles"):
        dns._read_name_untrusted(packet, 1 + 2 * 16)


@pytest.mark.req("COA-02")
@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "not a DNS packet"),
        (bytes(11), "not a DNS packet"),
        (bytes(9001), "not a DNS packet"),
        (header(questions=65535, answers=65535), "too many records"),
        (header(questions=33, answers=32), "too many records"),
        (header(questions=1), "cut off"),
        (header(questions=1) + b"\x05ab", "cut off"),
        (header(questions=1) + b"\xc0", "cut off"),
        (header(questions=1) + b"\x01a\0\0\x0c\0", "cut off"),
        (header(questions=1) + b"\x40" + bytes(70), "unknown kind of label"),
        (header(questions=1) + b"\x80" + bytes(140), "unknown kind of label"),
        (header(questions=1) + (b"\x3f" + b"a" * 63) * 4 + b"\0" + bytes(4), "name is too long"),
        (header(questions=1) + b"\x01a" * 33 + b"\0" + bytes(4), "name is too long"),
        (header(answers=1) + b"\0" + bytes(9), "cut off"),
        (header(answers=1) + b"\0" + struct.pack("!2HIH", 1, 1, 0, 65535), "cut off"),
        (header(answers=1) + record(Type.A, bytes(3)), "wrong length"),
        (header(answers=1) + record(Type.AAAA, bytes(4)), "wrong length"),
        (header(answers=1) + record(Type.SRV, bytes(5)), "service record"),
        (header(answers=1) + record(Type.SRV, bytes(6) + b"\x01a\0extra"), "does not fill"),
        (header(answers=1) + record(Type.PTR, b"\x01a\0extra"), "does not fill"),
        (header(answers=1) + record(Type.PTR, b"\x01a") + b"\0\0", "does not fill"),
        (header(answers=1) + record(Type.TXT, b"\x05abc"), "overruns"),
    ],
)
def test_refused_packets(packet: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        dns.decode_untrusted(packet)


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", "a.", "a" * 64, "ä" * 32, ".".join(["a" * 60] * 5), ".".join("a" * 33)]
)
def test_names_that_cannot_be_written(text: str) -> None:
    with pytest.raises(UsageError):
        dns.name(text)


def test_a_packet_that_would_be_too_long() -> None:
    with pytest.raises(UsageError, match="too long"):
        dns.encode(Packet(True, answers=(Record(NAME, Txt((b"x" * 255,) * 20)),) * 2))


@given(st.binary(max_size=120), st.integers(0, 3), st.integers(0, 3))
def test_any_bytes_are_read_or_refused(body: bytes, questions: int, answers: int) -> None:
    for packet in (body, header(questions, answers) + body):
        with contextlib.suppress(BadFrame):
            read = dns.decode_untrusted(packet)
            with contextlib.suppress(UsageError):  # decompressed names may make it too long
                assert dns.decode_untrusted(dns.encode(read)) == read
