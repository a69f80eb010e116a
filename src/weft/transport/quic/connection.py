"""One QUIC connection, which receives and sends DATAGRAM frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    QuicEvent,
    StreamDataReceived,
)
from aioquic.quic.packet import QuicErrorCode

from weft.transport.quic.configuration import ALPN
from weft.wire.udp import Address

QUIC_FRAMES_WAITING_MAX: Final = 1024  # for one blocked connection: 0.5 MiB; later frames are lost
# A QUIC packet has 1,200 bytes, which every path carries: at most 39 for header and tag, 3 for the frame's own header.
QUIC_PACKET_BYTES_MAX: Final = 1150
FRAME_HEADER_BYTES: Final = 3
QUIC_REASON_CHARS_MAX: Final = 200  # kept of the reason that the other side gives
KEEP_ALIVE_PING: Final = 0  # a number that nobody waits for


class Connection(QuicConnectionProtocol):
    """Calls ``on_up`` at the end of the handshake, ``on_frame`` for each frame, and ``on_gone`` once at the end of the
    connection."""

    def __init__(
        self,
        quic: Any,
        on_up: Callable[[Connection], None],
        on_frame: Callable[[Connection, bytes], None],
        on_gone: Callable[[Connection], None],
    ) -> None:
        super().__init__(quic)
        self.peer: Address | None = None  # where its first packet came from; it stays the same even if the peer moves
        self.ended = ""  # the reason for which it was ended
        self.settled = asyncio.Event()  # the handshake is over: the connection is up, or has failed
        self.gone = asyncio.Event()
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._agreed = False

    def datagram_received(self, data: Any, addr: Any) -> None:
        self.peer = self.peer or addr
        super().datagram_received(data, addr)
        # aioquic reports the peer's goodbye only after three round trips. Do not send into the void until then.
        if self._quic._close_event is not None:
            self._over(self._quic._close_event)

    def error_received(self, exc: Exception) -> None:
        """The system says that nobody listens there. Such a message may be forged, so it ends only an attempt to
        connect, and no connection that is up."""
        if not self._agreed and isinstance(exc, OSError):
            self._end_with(exc.strerror or str(exc))

    def quic_event_received(self, event: QuicEvent) -> None:
        """Replaces the base class's method, which would keep whatever a stranger sends on streams."""
        match event:
            case HandshakeCompleted():
                self._on_handshake(event.alpn_protocol)
            case DatagramFrameReceived():
                if self._agreed:
                    self._on_frame(self, event.data)
            case StreamDataReceived():
                self.end(f"{ALPN} has no streams")
            case ConnectionTerminated():
                self._over(event)
            case _:
                pass  # pings, tickets, connection ids: internal to aioquic

    def _on_handshake(self, alpn: str | None) -> None:
        if alpn != ALPN:
            self.end(f"this is {ALPN}, not {alpn}")
        elif not self._quic._remote_max_datagram_frame_size:
            self.end(f"{ALPN} needs DATAGRAM frames (RFC 9221)")
        else:
            self._agreed = True
            self._on_up(self)
            self.settled.set()

    def _over(self, event: ConnectionTerminated) -> None:
        self._end_with(_visible(event.reason_phrase) or f"error {event.error_code:#x}")

    def _end_with(self, reason: str) -> None:
        self.ended = self.ended or reason
        if not self.gone.is_set():
            self.gone.set()
            self.settled.set()
            self._on_gone(self)

    def takes(self, size: int) -> bool:
        """Whether a packet of this size fits into a frame: one that does not would block all that come after it."""
        remote_max = self._quic._remote_max_datagram_frame_size or 0
        return size <= min(QUIC_PACKET_BYTES_MAX, remote_max - FRAME_HEADER_BYTES)

    def send(self, data: bytes) -> bool:
        """Send a frame; return whether it was accepted. Waiting frames are bounded here, because aioquic's own queue is
        not."""
        waiting = len(self._quic._datagrams_pending)
        if not self._agreed or self.ended or waiting >= QUIC_FRAMES_WAITING_MAX or not self.takes(len(data)):
            return False
        self._quic.send_datagram_frame(data)
        self._transmit_soon()
        return True

    def keep_alive(self) -> None:
        """Send a ping, which the other side has to answer: a connection ends after ``QUIC_KEPT_TIMEOUT_S`` of
        silence."""
        self._quic.send_ping(KEEP_ALIVE_PING)
        self.transmit()

    def end(self, reason: str) -> None:
        if self.ended:
            return
        self.ended = reason
        if self._quic._network_paths:
            self.close(error_code=QuicErrorCode.APPLICATION_ERROR, reason_phrase=reason)
        else:  # it had not sent anything yet, so there is nobody to tell
            self.settled.set()

    def abandon(self) -> None:
        """Do nothing more: the socket is about to be closed."""
        for pending in (self._timer, self._transmit_task):
            if pending is not None:
                pending.cancel()


def _visible(reason: str) -> str:
    """Make a text that may be a stranger's safe for logs and terminals."""
    return "".join(each if each.isprintable() else " " for each in reason[:QUIC_REASON_CHARS_MAX])
