"""Values around a datagram."""

from __future__ import annotations

from weft.wire.udp import Address, Datagram, Datagrams, show


def test_addresses_are_shown_as_people_write_them() -> None:
    assert show(("127.0.0.1", 7500)) == "127.0.0.1:7500"
    assert show(("fe80::1", 7500, 0, 2)) == "[fe80::1]:7500"


def test_received_columns_are_a_sequence_of_datagrams() -> None:
    sources: list[Address] = [("10.0.0.1", 1), ("::1", 2, 0, 0)]
    received = Datagrams([b"x", b"y"], sources, [64, 1], [0, 0x62])
    expected = [Datagram(b"x", ("10.0.0.1", 1), 64, 0), Datagram(b"y", ("::1", 2, 0, 0), 1, 0x62)]
    assert list(received) == expected
    assert all(type(each) is Datagram for each in received)
    assert (len(received), received[1], received[-2], received[1:]) == (2, expected[1], expected[0], expected[1:])
    assert not Datagrams([], [], [], [])
