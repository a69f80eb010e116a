"""A QUIC client made directly on aioquic, knowing nothing of ours: what a device's own program might look like."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, DatagramFrameReceived, QuicEvent

WAIT_S = 60.0  # a bound, not an expectation: the machine may be busy


class Foreign(QuicConnectionProtocol):
    """Collects DATAGRAM frames."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, DatagramFrameReceived):
            self.frames.put_nowait(event.data)
        elif isinstance(event, ConnectionTerminated) and not self.reason.done():
            self.reason.set_result(event.reason_phrase)

    def send(self, data: bytes) -> None:
        self._quic.send_datagram_frame(data)
        self.transmit()

    def send_on_stream(self, data: bytes) -> None:
        self._quic.send_stream_data(self._quic.get_next_available_stream_id(), data)
        self.transmit()

    async def frame(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await self.frames.get()

    async def ended(self) -> str:
        async with asyncio.timeout(WAIT_S):
            return await self.reason


@asynccontextmanager
async def foreign_client(
    port: int, root_pem: bytes, alpn: str = "emp/1", frame_bytes_max: int | None = 65536
) -> AsyncIterator[Foreign]:
    configuration = QuicConfiguration(alpn_protocols=[alpn], is_client=True, max_datagram_frame_size=frame_bytes_max)
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.server_name = "127.0.0.1"
    configuration.load_verify_locations(cadata=root_pem)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Foreign) as made:
        assert isinstance(made, Foreign)
        yield made
