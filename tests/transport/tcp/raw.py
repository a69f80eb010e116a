"""The other side of a connection, byte by byte: transcripts of tests/wire/exmp on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from tests.wire.exmp.transcript import HELLO, octets
from weft.doors import Door
from weft.transport.tcp import ExmpConnection, Listener, ReceivedRequest
from weft.wire.exmp import Closed, Failure, InvalidRequestReceived, Outcome, Settings, Success

PATIENCE_S = 30.0  # of a test; nothing takes nearly as long
QUIET = Settings(ping_interval_s=None)


class Echo:
    """A user that answers every request with what it was asked, and remembers what it heard."""

    def __init__(self, link: ExmpConnection) -> None:
        self.link = link
        self.is_opened = False
        self.heard: list[ReceivedRequest] = []
        self.reads = 0
        self.end: Closed | None = None

    def opened(self) -> None:
        self.is_opened = True

    def requested(self, requests: Sequence[ReceivedRequest]) -> None:
        self.reads += 1
        for request in requests:
            self.heard.append(request)
            self.link.respond(request.id, outcome_of(request))

    def writable(self) -> None: ...

    def closed(self, closed: Closed) -> None:
        assert self.end is None, "told once"
        self.end = closed


def outcome_of(request: ReceivedRequest) -> Outcome:
    if isinstance(request, InvalidRequestReceived):
        return Failure("unreadable", "invalid")
    return Success(request.operation.data)


class Raw:
    """A peer that sends what it is told and expects what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.ended: Closed | None = None  # how our side ended it, once that is known

    def send(self, text: str) -> None:
        self.writer.write(octets(text))

    async def expect(self, text: str) -> None:
        """Exactly these bytes come next."""
        wanted = octets(text)
        async with asyncio.timeout(PATIENCE_S):
            found = await self.reader.readexactly(len(wanted))
        assert found.hex() == wanted.hex()

    async def expect_end(self) -> None:
        """The other side has closed, and nothing came before that."""
        async with asyncio.timeout(PATIENCE_S):
            assert await self.reader.read() == b""

    async def greet(self) -> None:
        self.send(HELLO)
        await self.expect(HELLO)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


class Place:
    """A listener, and the users of the links that came in."""

    def __init__(self, port: int, users: list[Echo], listener: Listener) -> None:
        self.port = port
        self.users = users
        self.listener = listener
        self._open: list[Raw] = []

    async def raw(self) -> Raw:
        raw = Raw(*await asyncio.open_connection("127.0.0.1", self.port))
        self._open.append(raw)
        return raw

    async def greeted(self) -> Raw:
        raw = await self.raw()
        await raw.greet()
        return raw

    async def close(self) -> None:
        for raw in self._open:
            await raw.close()


@asynccontextmanager
async def listening(
    settings: Settings = QUIET, connections_max: int = 2000, door: Door | None = None
) -> AsyncIterator[Place]:
    users: list[Echo] = []

    def make_user(link: ExmpConnection) -> Echo:
        users.append(Echo(link))
        return users[-1]

    listener = Listener(settings, make_user, connections_max, door=door)
    place = Place(await listener.start("127.0.0.1", 0), users, listener)
    try:
        yield place
    finally:
        await place.close()
        await listener.close()


async def until(condition: object) -> None:
    """Wait for something that can be called and becomes true."""
    assert callable(condition)
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
