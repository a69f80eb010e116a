"""A stream of a peer link: it reads and writes frames, and raises one error when it is over.

``PeerChannel``, ``DialledCall`` and ``AcceptedCall`` name what a link needs of gRPC: a simulation has its own.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from weft.errors import PeerError
from weft.wire.rpc import Metadata, RpcError

LINK_REASON_CHARS_MAX: Final = 512  # of a peer's own words in our log
THE_PEER_ENDED: Final = "the peer ended the stream"


class LinkBroken(PeerError):
    """The stream is over, because of the peer or the network; the text says why."""


class PeerCall(Protocol):
    """One end of a call; ``weft.transport.grpc.calls`` has the real ones."""

    async def read(self) -> bytes | None:
        """The next message; None at the end; RpcError when the call has failed."""

    async def write(self, message: bytes) -> None:
        """Returns when there is room for more; RpcError when the call is over."""


class DialledCall(PeerCall, Protocol):
    def end(self) -> None:
        """We send no more."""


class AcceptedCall(PeerCall, Protocol):
    @property
    def peer(self) -> str:
        """``host:port`` of the caller."""

    @property
    def certificate(self) -> bytes | None:
        """What the caller showed, as DER."""

    @property
    def metadata(self) -> Metadata: ...

    def widen(self) -> None:
        """The caller is known now, and may send as much at a time as others."""


class PeerChannel(Protocol):
    """A connection that we dialled."""

    async def call(self, path: str, metadata: Metadata) -> DialledCall:
        """Begin a call; raise RpcError if there is no connection."""

    def close(self) -> None:
        """Fail the open calls, and allow no more."""

    async def wait_closed(self) -> None: ...


class ByteStream(Protocol):
    async def read(self) -> bytes:
        """The next frame; LinkBroken when there are no more."""

    async def write(self, frame: bytes) -> None:
        """Returns when there is room for more, so that a slow peer slows only its own writer; LinkBroken."""

    async def finish(self) -> None:
        """Write nothing more, and wait until everything has left, as far as this side can tell."""


class _CallStream:
    def __init__(self, call: PeerCall) -> None:
        self._call = call
        self._read_all = asyncio.Event()

    async def read(self) -> bytes:
        try:
            frame = await self._call.read()
        except RpcError as error:
            self._read_all.set()
            raise _broken(error) from None
        if frame is None:
            self._read_all.set()
            raise LinkBroken(THE_PEER_ENDED)
        return frame

    async def write(self, frame: bytes) -> None:
        try:
            await self._call.write(frame)
        except RpcError as error:
            raise _broken(error) from None


class DialledStream(_CallStream):
    """Our end of a call that we made."""

    def __init__(self, call: DialledCall) -> None:
        super().__init__(call)
        self._dialled = call

    async def finish(self) -> None:
        """Wait until the peer has ended it, too. Somebody has to go on reading meanwhile."""
        self._dialled.end()
        await self._read_all.wait()


class AcceptedStream(_CallStream):
    """Our end of a call that the peer made; it ends when its handler returns."""

    def __init__(self, call: AcceptedCall) -> None:
        super().__init__(call)

    async def finish(self) -> None:
        """Nothing to do: when the handler returns, gRPC sends all frames before the status."""


async def begin_call(channel: PeerChannel, path: str, metadata: Metadata) -> DialledCall:
    """Raise LinkBroken if there is no connection any longer."""
    try:
        return await channel.call(path, metadata)
    except RpcError as error:
        raise _broken(error) from None


def _broken(error: RpcError) -> LinkBroken:
    return LinkBroken(clipped(error.details) or THE_PEER_ENDED)


def clipped(reason: str) -> str:
    """A reason that the peer gave, cut to a bounded length and put on one line."""
    return "".join(c if c.isprintable() else " " for c in reason[:LINK_REASON_CHARS_MAX])
