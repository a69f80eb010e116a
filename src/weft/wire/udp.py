"""Datagrams as they come from the network and go to it, with the marks in the IP header around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple, overload

from weft.errors import UsageError

TTL_MAX: Final = 255  # one byte in either IP header, and so is TOS
TOS_MAX: Final = 255
TTL_DEFAULT: Final = 64

# As socket calls give and take it. IPv6 has two numbers more: flow and scope, the interface of a link-local address.
Address = tuple[str, int] | tuple[str, int, int, int]


class Datagram(NamedTuple):
    """One datagram that arrived. A tuple, because a busy socket makes 100,000 of them a second.

    ``ttl`` is IPv4's time to live or IPv6's hop limit, as left when it arrived; ``tos`` is the byte with DSCP above and
    ECN in the lower two bits (IPv6: traffic class). Both are 0 where the system does not tell.
    """

    data: bytes
    source: Address
    ttl: int
    tos: int


new_tuple: Final = tuple.__new__


class Datagrams(Sequence[Datagram]):
    """Datagrams that arrived together, in columns: code that needs only contents and sources makes no tuples."""

    __slots__ = ("contents", "sources", "toses", "ttls")

    def __init__(self, contents: list[bytes], sources: list[Address], ttls: list[int], toses: list[int]) -> None:
        self.contents = contents
        self.sources = sources
        self.ttls = ttls
        self.toses = toses

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, place: int) -> Datagram: ...

    @overload
    def __getitem__(self, place: slice) -> list[Datagram]: ...

    def __getitem__(self, place: int | slice) -> Datagram | list[Datagram]:
        if isinstance(place, slice):
            return list(self)[place]
        return Datagram(self.contents[place], self.sources[place], self.ttls[place], self.toses[place])

    def __iter__(self) -> Iterator[Datagram]:
        """Without the named constructor, which takes three times as long."""
        rows = zip(self.contents, self.sources, self.ttls, self.toses, strict=True)
        return map(new_tuple, repeat(Datagram), rows)


class Outgoing(NamedTuple):
    """One datagram to send, and its marks. A tuple for the same reason."""

    data: bytes
    target: Address
    ttl: int = TTL_DEFAULT
    tos: int = 0
    urgent: bool = False


def check_marks(ttl: int, tos: int) -> None:
    """UsageError unless both fit an IP header. A TTL of 0 goes nowhere, so it is not sent either."""
    if not 1 <= ttl <= TTL_MAX:
        raise UsageError("TTL is out of range", value=ttl, least=1, limit=TTL_MAX)
    if not 0 <= tos <= TOS_MAX:
        raise UsageError("TOS is out of range", value=tos, limit=TOS_MAX)


def show(address: Address) -> str:
    """``127.0.0.1:7500``, ``[::1]:7500``, for people."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


SCHEME: Final = "quic/"


def quic_address(address: Address) -> Address:
    host, *rest = address
    return (f"{SCHEME}{host}", *rest)  # type: ignore[return-value]


def is_quic(address: Address) -> bool:
    return address[0].startswith(SCHEME)


def show_any(address: Address) -> str:
    """``127.0.0.1:4700``, ``quic/127.0.0.1:4700``, ``quic/[::1]:4700``."""
    if not is_quic(address):
        return show(address)
    host, *rest = address
    return f"{SCHEME}{show((host.removeprefix(SCHEME), *rest))}"  # type: ignore[arg-type]
