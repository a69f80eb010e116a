"""A plain socket beside ours, which reads marks in its own way: nothing of ``weft.transport.udp`` is used here."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

WAIT_S = 30.0  # a bound, not an expectation: the machine may be busy
LOOPBACK = {"ipv4": "127.0.0.1", "ipv6": "::1"}


class Seen(NamedTuple):
    data: bytes
    ttl: int
    tos: int
    source: tuple[str, int]


@contextmanager
def plain_socket(host: str) -> Iterator[socket.socket]:
    """Bound to any port of that address, told to give TTL and TOS of what arrives."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as made:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        else:
            made.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL
            made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        made.bind((host, 0))
        made.settimeout(WAIT_S)
        yield made


def see(made: socket.socket) -> Seen:
    """The next datagram; both families number TTL and TOS differently, and IPv4 gives TOS as one byte."""
    data, controls, _, source = made.recvmsg(65_536, 256)
    numbers = {
        (level, kind): value[0] if len(value) == 1 else struct.unpack("=i", value)[0] for level, kind, value in controls
    }
    v6 = made.family == socket.AF_INET6
    ttl = numbers[(socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT) if v6 else (socket.IPPROTO_IP, socket.IP_TTL)]
    tos = numbers[(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if v6 else (socket.IPPROTO_IP, socket.IP_TOS)]
    return Seen(data, ttl, tos, source[:2])
