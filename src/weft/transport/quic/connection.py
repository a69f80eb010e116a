"""One QUIC connection: DATAGRAM frames in, DATAGRAM frames out."""

from __future__ import annotations

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

QUIC_FRAMES_WAITING_MAX: Final = 1024  # for one connection that is held up: 0.5 MiB; later ones are lost


class Connection(QuicConnectionProtocol):
    """``on_up`` hears of the handshake's end, ``on_frame`` of each frame, ``on_gone`` of the connection's end."""

    def __init__(
        self,
        quic: Any,
        on_up: Callable[[Connection], None],
        on_frame: Callable[[Connection, bytes], None],
        on_gone: Callable[[Connection], None],
    ) -> None:
        super().__init__(quic)
        self.peer: Address | None = None  # where its first packet came from; it may move, and keeps this name
        self.ended = ""  # why it was ended, if it was
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._agreed = False

    def datagram_received(self, data: Any, addr: Any) -> None:
        self.peer = self.peer or addr
        super().datagram_received(data, addr)

    def quic_event_received(self, event: QuicEvent) -> None:
        """In place of the base class's, which would keep whatever a stranger sends on streams."""
        match event:
            case HandshakeCompleted():
                if event.alpn_protocol != ALPN:
                    self.end(f"this is {ALPN}, not {event.alpn_protocol}")
                    return
                self._agreed = True
                self._on_up(self)
            case DatagramFrameReceived():
                if self._agreed:
                    self._on_frame(self, event.data)
            case StreamDataReceived():
                self.end(f"{ALPN} has no streams")
            case ConnectionTerminated():
                self.ended = self.ended or event.reason_phrase or f"error {event.error_code:#x}"
                self._on_gone(self)
            case _:
                pass  # pings, tickets, connection ids: aioquic's own affairs

    def send(self, data: bytes) -> bool:
        """Whether it was taken. What waits is bounded here, because aioquic keeps everything."""
        if not self._agreed or self.ended or len(self._quic._datagrams_pending) >= QUIC_FRAMES_WAITING_MAX:
            return False
        self._quic.send_datagram_frame(data)
        self._transmit_soon()
        return True

    def end(self, reason: str) -> None:
        if not self.ended:
            self.ended = reason
            self.close(error_code=QuicErrorCode.APPLICATION_ERROR, reason_phrase=reason)

    def abandon(self) -> None:
        """Do nothing any more: the socket is about to be closed."""
        for pending in (self._timer, self._transmit_task):
            if pending is not None:
                pending.cancel()
