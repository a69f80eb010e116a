"""Opening and closing a node of a datagram protocol: its UDP socket, its QUIC connections and its timer, around a
session that has none of these."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import SystemRandom
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from weft.errors import UsageError
from weft.limits import DATAGRAM_SOUGHT_MAX
from weft.transport.quic import KeptConnection, QuicLinks, Shown, is_quic
from weft.transport.turns import Turns
from weft.transport.udp.udp_socket import UdpSocket
from weft.wire.udp import Address, Datagram, Outgoing

HostAndPort = tuple[str, int]
Found = TypeVar("Found")
CHANCE: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class Ways:
    """Where a node listens. Without ``udp``, nothing leaves it unencrypted."""

    udp: HostAndPort | None
    quic: HostAndPort | None
    certificate: Shown | None

    def __post_init__(self) -> None:
        if (self.quic is None) != (self.certificate is None):
            raise UsageError("listening for QUIC takes an address and a certificate: give both or neither")


class OpenNode(ABC):
    """Everything that exists while a node is open. After each event, ``work`` is called and does what the session
    wants."""

    def __init__(self) -> None:
        self.udp: UdpSocket | None = None
        self.quic = QuicLinks(self.on_datagrams, self.on_gone)
        self.quic_address: Address | None = None
        self.turns = Turns(self.on_timer)
        self._kept: dict[HostAndPort, asyncio.Task[None]] = {}  # connections that are made again when they end

    async def open(self, ways: Ways, datagram_bytes_max: int) -> None:
        """Listen; UsageError if an address is not available."""
        try:
            if ways.udp is not None:
                self.udp = await UdpSocket.bind(*ways.udp, self.on_datagrams, datagram_bytes_max=datagram_bytes_max)
            if ways.quic is not None and ways.certificate is not None:
                self.quic_address = await self.quic.listen(*ways.quic, ways.certificate)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for task in self._kept.values():
            task.cancel()
        if self.udp is not None:
            self.udp.close()
        self.quic.close()
        self.turns.close()

    def check(self) -> None:
        if self.turns.is_closed:
            raise UsageError("the node was closed meanwhile")

    async def until(self, look: Callable[[], Found | None], timeout_s: float) -> Found:
        """Return what ``look`` finds, as soon as it finds something; TimeoutError if that takes too long."""
        async with asyncio.timeout(timeout_s):
            while (found := look()) is None:
                await self.turns.changed()
                self.check()
        return found

    def failed(self, what: str, error: Exception) -> None:
        """Report a bug in the application; the node goes on."""
        asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})

    async def resolve(self, host: str, port: int) -> Address:
        """Where UDP datagrams for that host go. UsageError if there is no such address, or no UDP here."""
        if self.udp is None:
            raise UsageError("the node does not use UDP: join others by QUIC")
        return await self.udp.resolve(host, port)

    async def join_quic(self, address: HostAndPort, root_pem: bytes, timeout_s: float) -> Address:
        """Connect, and connect again whenever the connection ends. Return where to send to; PeerError if the first
        attempt fails."""
        if address not in self._kept and len(self._kept) >= DATAGRAM_SOUGHT_MAX:
            raise UsageError("too many nodes to join by QUIC", limit=DATAGRAM_SOUGHT_MAX)
        self._stop_keeping(address)
        kept = KeptConnection(self.quic, address, lambda: root_pem, self.seek, lambda error, pause_s: None, CHANCE)
        target = await kept.dial(timeout_s)
        self.check()
        self._stop_keeping(address)  # another caller may have joined it meanwhile
        self._kept[address] = kept.start()
        return target

    def _stop_keeping(self, address: HostAndPort) -> None:
        if (task := self._kept.pop(address, None)) is not None:
            task.cancel()

    def send(self, each: Outgoing) -> bool:
        """Send a packet; return False if it is lost here already."""
        if is_quic(each.target):
            return self.quic.send(each.data, each.target)
        udp = self.udp
        return udp is not None and udp.send(each.data, each.target, ttl=each.ttl, tos=each.tos, urgent=each.urgent)

    @abstractmethod
    def seek(self, target: Address) -> None:
        """Ask that address to be a neighbour, again and again until it is one."""

    @abstractmethod
    def work(self) -> None: ...

    @abstractmethod
    def on_datagrams(self, datagrams: Sequence[Datagram]) -> None: ...

    @abstractmethod
    def on_gone(self, address: Address) -> None:
        """A QUIC connection ended: that address can no longer be reached."""

    @abstractmethod
    def on_timer(self) -> None: ...


Opened = TypeVar("Opened", bound=OpenNode)


class DatagramNode(ABC, Generic[Opened]):
    """``async with`` opens the node and closes it. It looks for the ``join`` addresses from the start, by UDP."""

    def __init__(self, ways: Ways, join: Iterable[HostAndPort]) -> None:
        self._ways = ways
        self._join = tuple(join)
        self._opened: Opened | None = None

    @abstractmethod
    async def _start(self) -> Opened:
        """An open node."""

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise UsageError("the node is open already")
        self._opened = await self._start()
        try:
            self._opened.work()
            for host, port in self._join:
                self._opened.seek(await self._opened.resolve(host, port))
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        """Close the node. Neither protocol has a goodbye, so neighbours notice only the silence (EMC-15). QUIC
        connections do say goodbye."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def address(self) -> HostAndPort:
        """Where the node listens for UDP; UsageError if it does not."""
        udp = self._open.udp
        if udp is None:
            raise UsageError("the node does not listen for UDP")
        host, port, *_ = udp.address
        return host, port

    @property
    def quic_address(self) -> HostAndPort:
        """Where it listens for QUIC; UsageError if it does not."""
        address = self._open.quic_address
        if address is None:
            raise UsageError("the node does not listen for QUIC")
        return address[0], address[1]

    @property
    def _open(self) -> Opened:
        if self._opened is None:
            raise UsageError("the node is not open: use it inside `async with`")
        return self._opened
