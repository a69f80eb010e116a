"""A stream of a peer link: frames in, frames out, and one error when it is over."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from weft.errors import PeerError
from weft.transport.grpc.calls import Call, ClientCall, ServerCall
from weft.transport.grpc.channel import Channel
from weft.wire.rpc import Metadata, RpcError

LINK_REASON_CHARS_MAX: Final = 512  # of a peer's own words in our log
THE_PEER_ENDED: Final = "the peer ended the stream"


class LinkBroken(PeerError):
    """The stream is over, by the peer's doing or the network's; the text says why."""


class ByteStream(Protocol):
    async def read(self) -> bytes:
        """The next frame; LinkBroken when there is none any more."""

    async def write(self, frame: bytes) -> None:
        """Done when there is room for more, so that a slow peer slows only its own writer; LinkBroken."""

    async def finish(self) -> None:
        """Nothing more will be written: let everything out, as far as this side can see to it."""


class _CallStream:
    def __init__(self, call: Call) -> None:
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

    def __init__(self, call: ClientCall) -> None:
        super().__init__(call)
        self._dialled = call

    async def finish(self) -> None:
        """Wait for the peer to end it too; somebody has to go on reading."""
        self._dialled.end()
        await self._read_all.wait()


class AcceptedStream(_CallStream):
    """Our end of a call that the peer made; it ends when its handler returns."""

    def __init__(self, call: ServerCall) -> None:
        super().__init__(call)

    async def finish(self) -> None:
        """Frames go out before the status that follows when the handler returns."""


async def begin_call(channel: Channel, path: str, metadata: Metadata) -> ClientCall:
    """Raise LinkBroken if there is no connection any more."""
    try:
        return await channel.call(path, metadata)
    except RpcError as error:
        raise _broken(error) from None


def _broken(error: RpcError) -> LinkBroken:
    return LinkBroken(clipped(error.details) or THE_PEER_ENDED)


def clipped(reason: str) -> str:
    """A reason as somebody else put it: bounded, on one line."""
    return "".join(c if c.isprintable() else " " for c in reason[:LINK_REASON_CHARS_MAX])
