"""Values around a datagram."""

from __future__ import annotations

from weft.transport.udp import show


def test_addresses_are_shown_as_people_write_them() -> None:
    assert show(("127.0.0.1", 7500)) == "127.0.0.1:7500"
    assert show(("fe80::1", 7500, 0, 2)) == "[fe80::1]:7500"
