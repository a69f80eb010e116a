"""A UDP socket on the running event loop: it receives datagrams in lists, with the marks of each, and sends through a
bounded queue."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, cast

from weft.errors import UsageError
from weft.limits import KIB, MIB
from weft.transport.udp.bulk import BulkReceiver
from weft.transport.udp.marks import marks_of
from weft.wire.udp import TTL_DEFAULT, Address, Datagram, Datagrams, Outgoing, check_marks, show
from weft.wire.urgent_first import UrgentFirst

UDP_DATAGRAM_BYTES_MAX: Final = 2 * KIB  # of one datagram: over twice what EMM and EMM-C allow
UDP_DATAGRAMS_AT_ONCE: Final = 512  # received before other tasks have their turn: 1.5 ms, plus the work on them
UDP_SEND_QUEUE_MAX: Final = 4096  # datagrams, and as many urgent ones: 2 MiB each; further ones would be too late
UDP_RECEIVE_BUFFER_BYTES: Final = 8 * MIB  # 20,000 datagrams of 200 bytes: a pause of 0.2 s at 100,000/s
UDP_SEND_BUFFER_BYTES: Final = 1 * MIB  # a burst leaves in one go; the queue behind it knows which are urgent


# Linux; Python's socket module does not name them.
SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
SO_MEMINFO: Final = 55
LISTS_AT_ONCE: Final = 4  # for owners that want more; after that, other tasks have their turn in any case
MEMINFO_BYTES: Final = 36  # nine u32, of which the last counts datagrams that found the receive buffer full

OnDatagrams = Callable[[Sequence[Datagram]], None]
OnReceived = Callable[[Datagrams], None]  # a function that takes any sequence of datagrams will do


def never() -> bool:
    return False


@dataclass(slots=True)
class Figures:
    """What a socket did so far. It only counts, so it changes in place."""

    received: int = 0
    sent: int = 0
    dropped: int = 0  # no room in the send queue
    failed: int = 0  # the system refused to send it: no route, a firewall, no buffers
    failure: str = ""  # what the system said the last time


class UdpSocket:
    """One bound socket. ``on_datagrams`` gets what has arrived, at most ``datagrams_at_once`` at a time.

    Between two lists, the event loop serves its other tasks, so a flood cannot take it over. The kernel drops what the
    owner cannot keep up with, and that counts as ``overflowed``. An owner that picks out urgent datagrams may want to
    see more of what waits: while ``wants_more`` says so, up to ``LISTS_AT_ONCE`` full lists come one after the other.
    """

    def __init__(
        self,
        bound: socket.socket,
        on_datagrams: OnReceived,
        *,
        wants_more: Callable[[], bool] = never,
        datagram_bytes_max: int = UDP_DATAGRAM_BYTES_MAX,
        datagrams_at_once: int = UDP_DATAGRAMS_AT_ONCE,
        send_queue_max: int = UDP_SEND_QUEUE_MAX,
    ) -> None:
        """Use ``bind``, which makes and marks the socket. A datagram longer than ``datagram_bytes_max`` arrives cut to
        one byte more, so that a codec with that limit refuses it for its size."""
        self.figures = Figures()
        self.address: Address = bound.getsockname()
        self.family = bound.family
        self._socket = bound
        self._marks = marks_of(bound.family)
        self._on_datagrams = on_datagrams
        self._wants_more = wants_more
        self._datagrams_at_once = datagrams_at_once
        self._queue: UrgentFirst[Outgoing] = UrgentFirst(send_queue_max)
        self._receiver = BulkReceiver(bound, self._marks, datagrams_at_once, datagram_bytes_max + 1)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(bound, self._on_readable)

    @classmethod
    async def bind(
        cls,
        host: str,
        port: int,
        on_datagrams: OnReceived,
        *,
        wants_more: Callable[[], bool] = never,
        datagram_bytes_max: int = UDP_DATAGRAM_BYTES_MAX,
        datagrams_at_once: int = UDP_DATAGRAMS_AT_ONCE,
        send_queue_max: int = UDP_SEND_QUEUE_MAX,
        receive_buffer_bytes: int = UDP_RECEIVE_BUFFER_BYTES,
        send_buffer_bytes: int = UDP_SEND_BUFFER_BYTES,
    ) -> Self:
        """Listen on an address of this machine, IPv4 or IPv6; UsageError if that is not possible. Port 0 takes any."""
        family, address = await _resolve(host, port, socket.AF_UNSPEC)
        made = socket.socket(family, socket.SOCK_DGRAM)
        try:
            _configure(made, receive_buffer_bytes, send_buffer_bytes)
            made.bind(address)
        except OSError as error:
            made.close()
            raise UsageError(f"cannot listen for datagrams on {show(address)}: {error.strerror or error}") from None
        return cls(
            made,
            on_datagrams,
            wants_more=wants_more,
            datagram_bytes_max=datagram_bytes_max,
            datagrams_at_once=datagrams_at_once,
            send_queue_max=send_queue_max,
        )

    async def resolve(self, host: str, port: int) -> Address:
        """An address of this host to which the socket can send; UsageError if it has none of the socket's family."""
        return (await _resolve(host, port, self.family))[1]

    @property
    def receive_buffer_bytes(self) -> int:
        """The size that the system granted. Linux counts its own bookkeeping as well, and so reports twice the size
        that it was asked for and has accepted."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    @property
    def overflowed(self) -> int:
        """Datagrams that arrived and found the receive buffer full."""
        return int.from_bytes(self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO_BYTES)[-4:], sys.byteorder)

    @property
    def waiting(self) -> int:
        """Datagrams in the send queue."""
        return len(self._queue)

    # --- sending -------------------------------------------------------------------------------------------------

    def send(self, data: bytes, target: Address, *, ttl: int = TTL_DEFAULT, tos: int = 0, urgent: bool = False) -> bool:
        """Send now, or as soon as the socket takes more. Return False if the datagram is lost here already: the socket
        is closed, or there is no room or no route.

        ``ttl`` and ``tos`` hold for this datagram only.
        """
        check_marks(ttl, tos)
        if self.is_closed:
            return False
        outgoing = Outgoing(data, target, ttl, tos, urgent)
        if not self._queue:
            try:
                return self._transmit(outgoing)
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._on_writable)
        taken = self._queue.put(outgoing, urgent)
        self.figures.dropped += not taken
        return taken

    def _transmit(self, outgoing: Outgoing) -> bool:
        """Send a datagram; raise only BlockingIOError. One that cannot be sent counts as lost: losses are part of
        UDP."""
        controls = self._marks.write(outgoing.ttl, outgoing.tos)
        try:
            self._socket.sendmsg((outgoing.data,), controls, 0, outgoing.target)
        except BlockingIOError:
            raise
        except OSError as error:
            self.figures.failed += 1
            self.figures.failure = f"{show(outgoing.target)}: {error.strerror}"
            return False
        self.figures.sent += 1
        return True

    def _on_writable(self) -> None:
        for _ in range(self._datagrams_at_once):
            if not self._queue:
                self._loop.remove_writer(self._socket)
                return
            try:
                self._transmit(self._queue.first())
            except BlockingIOError:
                return
            self._queue.pop()

    # --- receiving -----------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        for _ in range(LISTS_AT_ONCE):
            is_full = self._receive() == self._datagrams_at_once
            if not is_full or self.is_closed or not self._wants_more():
                return

    def _receive(self) -> int:
        """Receive one list; return how many were in it."""
        try:
            arrived = self._receiver.receive()
        except OSError as error:  # an ICMP message about something sent earlier: the next call works again
            self.figures.failure = f"receiving: {error.strerror}"
            return 0
        self.figures.received += len(arrived)
        if arrived:
            self._on_datagrams(arrived)
        return len(arrived)

    # --- closing -------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Stop at once; what waits in the queue counts as dropped. Closing twice does nothing."""
        if self.is_closed:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self.figures.dropped += self._queue.clear()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _resolve(host: str, port: int, family: int) -> tuple[int, Address]:
    """Resolve a host; return the family and address that the system names first."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=socket.SOCK_DGRAM)
    except OSError as error:
        wanted = {socket.AF_INET: "IPv4 ", socket.AF_INET6: "IPv6 "}.get(socket.AddressFamily(family), "")
        raise UsageError(f"no {wanted}address for {host!r} and port {port}: {error.strerror or error}") from None
    kind, _, _, _, address = found[0]
    return kind, cast(Address, address)  # for these families it is one


def _configure(made: socket.socket, receive_buffer_bytes: int, send_buffer_bytes: int) -> None:
    made.setblocking(False)
    marks = marks_of(made.family)
    made.setsockopt(marks.level, marks.receive_ttl, 1)
    made.setsockopt(marks.level, marks.receive_tos, 1)
    if made.family == socket.AF_INET6:
        # An IPv6 socket that also took IPv4 would get marks in the form of the other family. To use both, bind two.
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    _size(made, SO_RCVBUFFORCE, socket.SO_RCVBUF, receive_buffer_bytes)
    _size(made, SO_SNDBUFFORCE, socket.SO_SNDBUF, send_buffer_bytes)


def _size(made: socket.socket, forced: int, plain: int, size_bytes: int) -> None:
    """Set a buffer's size: beyond the system's limit if we may, otherwise as far as the limit allows."""
    try:
        made.setsockopt(socket.SOL_SOCKET, forced, size_bytes)
    except PermissionError:
        made.setsockopt(socket.SOL_SOCKET, plain, size_bytes)
