"""A wire between two nodes that can be cut: a TCP proxy on loopback."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 16


class Wire:
    """A client that dials ``address`` gets to the target, as long as the wire is whole. ``target`` may be set later,
    and changed."""

    def __init__(self) -> None:
        self.address = ""
        self.target = ""
        self.is_cut = False
        self._server: asyncio.Server
        self._transports: set[asyncio.WriteTransport] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break all connections, with what is under way; new ones do not get through."""
        self.is_cut = True
        for transport in list(self._transports):
            transport.abort()

    def heal(self) -> None:
        self.is_cut = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._transports.add(writer.transport)
        try:
            if not self.is_cut and self.target:
                await self._join(reader, writer)
        except OSError:
            pass  # nobody is there: the connection ends, as it would without the wire
        finally:
            self._transports.discard(writer.transport)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        there, back = await asyncio.open_connection(host, int(port))
        self._transports.add(back.transport)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            self._transports.discard(back.transport)
            back.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()
