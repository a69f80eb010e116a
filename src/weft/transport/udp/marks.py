"""TTL and TOS as control messages beside a datagram, for IPv4 and IPv6 (EMC-12, EMC-14). Pure.

Socket options would set them for all datagrams. Control messages set and read them for each datagram.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

IP_RECVTTL: Final = 12  # Linux; Python's socket module does not name it
CONTROL_BYTES_MAX: Final = 128  # room for received control messages: two take 48
MARKS_KEPT: Final = 1024  # pairs of TTL and TOS whose control messages are cached; a node uses a few dozen

_INT: Final = struct.Struct("=i")
_LOW_BYTE: Final = 0 if sys.byteorder == "little" else -1  # of an int, or of the single byte in which IPv4's TOS comes

Control = tuple[int, int, bytes]  # level, type, value


@dataclass(frozen=True, slots=True)
class Marks:
    """How one address family names them."""

    level: int
    ttl: int
    tos: int
    receive_ttl: int
    receive_tos: int

    def read(self, controls: Iterable[Control]) -> tuple[int, int]:
        """(TTL, TOS) of a received datagram; 0 for a missing one."""
        ttl = tos = 0
        for level, kind, value in controls:
            if level == self.level and value:
                if kind == self.ttl:
                    ttl = value[_LOW_BYTE]
                elif kind == self.tos:
                    tos = value[_LOW_BYTE]
        return ttl, tos

    def write(self, ttl: int, tos: int) -> tuple[Control, ...]:
        """The control messages to send a datagram with."""
        return _written(self, ttl, tos)


@lru_cache(MARKS_KEPT)
def _written(marks: Marks, ttl: int, tos: int) -> tuple[Control, ...]:
    return (marks.level, marks.ttl, _INT.pack(ttl)), (marks.level, marks.tos, _INT.pack(tos))


IPV4: Final = Marks(socket.IPPROTO_IP, socket.IP_TTL, socket.IP_TOS, IP_RECVTTL, socket.IP_RECVTOS)
IPV6: Final = Marks(
    socket.IPPROTO_IPV6,
    socket.IPV6_HOPLIMIT,
    socket.IPV6_TCLASS,
    socket.IPV6_RECVHOPLIMIT,
    socket.IPV6_RECVTCLASS,
)


def marks_of(family: int) -> Marks:
    return IPV6 if family == socket.AF_INET6 else IPV4
