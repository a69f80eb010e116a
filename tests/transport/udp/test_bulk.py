"""What the kernel gives in bulk is what it gives one by one."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence

import pytest

from weft.transport.udp.bulk import BulkReceiver
from weft.transport.udp.marks import CONTROL_BYTES_MAX, marks_of
from weft.wire.udp import Datagram

HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def bound(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AddressFamily(request.param)
    marks = marks_of(family)
    with socket.socket(family, socket.SOCK_DGRAM) as made:
        made.setsockopt(marks.level, marks.receive_ttl, 1)
        made.setsockopt(marks.level, marks.receive_tos, 1)
        made.bind((HOSTS[family], 0))
        made.setblocking(False)
        yield made


def senders(to: socket.socket, count: int) -> list[socket.socket]:
    made = [socket.socket(to.family, socket.SOCK_DGRAM) for _ in range(count)]
    for each in made:
        each.connect(to.getsockname())
    return made


def send_some(to: socket.socket) -> None:
    """Of several sources, sizes and marks."""
    marks = marks_of(to.family)
    some = senders(to, 3)
    try:
        for number in range(20):
            controls = marks.write(10 + number, 4 * number) if number % 2 else ()
            some[number % 3].sendmsg([bytes([number]) * (number * 7)], controls)
    finally:
        for each in some:
            each.close()


def one_by_one(of: socket.socket) -> list[Datagram]:
    found = []
    try:
        while True:
            data, controls, _, source = of.recvmsg(2048, CONTROL_BYTES_MAX)
            found.append(Datagram(data, source, *marks_of(of.family).read(controls)))
    except BlockingIOError:
        return found


def without_ports(datagrams: Sequence[Datagram]) -> list[object]:
    """Each run has sockets of its own."""
    return [(each.data, each.source[0], each.source[2:], each.ttl, each.tos) for each in datagrams]


def test_the_same_datagrams(bound: socket.socket) -> None:
    send_some(bound)
    expected = one_by_one(bound)
    send_some(bound)
    bulk = BulkReceiver(bound, marks_of(bound.family), 64, 2048)
    found = bulk.receive()
    assert len(found) == 20
    assert len({each.source for each in found}) == 3
    assert without_ports(found) == without_ports(expected)
    assert not bulk.receive()


def test_in_portions_and_cut_to_size(bound: socket.socket) -> None:
    bulk = BulkReceiver(bound, marks_of(bound.family), 4, 10)
    (sender,) = senders(bound, 1)
    with sender:
        for number in range(6):
            sender.send(bytes([number]) * (8 + number))
    assert [len(each.data) for each in bulk.receive()] == [8, 9, 10, 10]
    assert [len(each.data) for each in bulk.receive()] == [10, 10]


def test_an_empty_datagram_is_one(bound: socket.socket) -> None:
    bulk = BulkReceiver(bound, marks_of(bound.family), 4, 10)
    (sender,) = senders(bound, 1)
    with sender:
        sender.send(b"")
        (found,) = bulk.receive()
        assert (found.data, found.source[:2]) == (b"", sender.getsockname()[:2])


def test_without_marks_they_are_zero() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind(("127.0.0.1", 0))
        bulk = BulkReceiver(plain, marks_of(plain.family), 4, 10)
        (sender,) = senders(plain, 1)
        with sender:
            sender.send(b"x")
        (found,) = bulk.receive()
        assert (found.ttl, found.tos) == (0, 0)


def test_errors_are_raised(bound: socket.socket) -> None:
    bulk = BulkReceiver(bound, marks_of(bound.family), 4, 10)
    bulk._file = -1
    with pytest.raises(OSError, match="descriptor") as caught:
        bulk.receive()
    assert caught.value.errno == errno.EBADF


def test_what_one_datagram_left_behind_is_not_read_into_the_next(bound: socket.socket) -> None:
    """A long one, then shorter ones in the same place; marks that change in between."""
    marks = marks_of(bound.family)
    got: list[Datagram] = []
    bulk = BulkReceiver(bound, marks, 1, 1000)
    (sender,) = senders(bound, 1)
    sent = [(900, 9, 0x20), (3, 200, 0), (0, 1, 0xFF)]
    with sender:
        for size, ttl, tos in sent:
            sender.sendmsg([bytes(size)], marks.write(ttl, tos))
            got += bulk.receive()
    assert [(len(each.data), each.ttl, each.tos) for each in got] == sent


def test_what_is_remembered_is_bounded(bound: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.transport.udp.bulk.UDP_SOURCES_KEPT", 2)
    bulk = BulkReceiver(bound, marks_of(bound.family), 4, 10)
    for number, sender in enumerate(senders(bound, 5)):
        with sender:
            sender.sendmsg([b"x"], marks_of(bound.family).write(10 + number, 0))
            (found,) = bulk.receive()
            assert (found.source, found.ttl) == (sender.getsockname(), 10 + number)
    assert len(bulk._sources) <= 2 and len(bulk._read_marks) <= 2
