"""How a node of a datagram protocol is opened and closed: its socket and its timer, around a session without either."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from weft.errors import UsageError
from weft.transport.turns import Turns
from weft.transport.udp.udp_socket import UdpSocket
from weft.wire.udp import Address, Datagram, show

HostAndPort = tuple[str, int]
Found = TypeVar("Found")


class OpenNode(ABC):
    """What exists while a node is open. ``work`` does what the session wants done, after everything that happened."""

    def __init__(self) -> None:
        self.udp: UdpSocket
        self.turns = Turns(self.on_timer)

    async def open(self, listen: HostAndPort, datagram_bytes_max: int) -> None:
        self.udp = await UdpSocket.bind(*listen, self.on_datagrams, datagram_bytes_max=datagram_bytes_max)

    def close(self) -> None:
        self.udp.close()
        self.turns.close()

    def check(self) -> None:
        if self.turns.is_closed:
            raise UsageError("the node was closed meanwhile")

    async def until(self, look: Callable[[], Found | None], timeout_s: float) -> Found:
        """What ``look`` finds, as soon as it does; TimeoutError if that takes too long."""
        async with asyncio.timeout(timeout_s):
            while (found := look()) is None:
                await self.turns.changed()
                self.check()
        return found

    def failed(self, what: str, error: Exception) -> None:
        """A mistake of the application: the node goes on."""
        asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})

    @abstractmethod
    def seek(self, target: Address) -> None:
        """Ask that address to be a neighbour, now and until it is."""

    @abstractmethod
    def work(self) -> None: ...

    @abstractmethod
    def on_datagrams(self, datagrams: Sequence[Datagram]) -> None: ...

    @abstractmethod
    def on_timer(self) -> None: ...


Opened = TypeVar("Opened", bound=OpenNode)


class NodeOnUdp(ABC, Generic[Opened]):
    """``async with`` opens the node and closes it. ``join`` addresses are sought from the start."""

    def __init__(self, listen: HostAndPort, join: Iterable[HostAndPort]) -> None:
        self._listen = listen
        self._join = tuple(join)
        self._opened: Opened | None = None

    @abstractmethod
    async def _start(self) -> Opened:
        """An open node."""

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise UsageError("the node is open already", address=show(self.address))
        self._opened = await self._start()
        try:
            self._opened.work()
            for host, port in self._join:
                self._opened.seek(await self._opened.udp.resolve(host, port))
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        """Nobody is told: neither protocol has a goodbye, others notice the silence (EMC-15)."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def address(self) -> HostAndPort:
        """Where the node listens for UDP."""
        host, port, *_ = self._open.udp.address
        return host, port

    @property
    def _open(self) -> Opened:
        if self._opened is None:
            raise UsageError("the node is not open: use it inside `async with`")
        return self._opened
