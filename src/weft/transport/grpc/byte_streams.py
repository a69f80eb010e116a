"""The two ends of a gRPC stream as one thing: frames in, frames out, and one error when it is over.

A task that is cancelled while it reads or writes takes the whole stream with it: so is grpc.aio. Whoever wants a stream
to end well lets its writer finish.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol, TypeAlias

import grpc

from weft.errors import PeerError
from weft.limits import LINK_REASON_CHARS_MAX

Call: TypeAlias = Any  # grpc.aio.StreamStreamCall and grpc.aio.ServicerContext: grpcio has no types
Context: TypeAlias = Any

GRPC_ERRORS: Final = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
THE_PEER_ENDED: Final = "the peer ended the stream"


class LinkBroken(PeerError):
    """The stream is over, by the peer's doing or the network's; the text says why."""


class ByteStream(Protocol):
    async def read(self) -> bytes:
        """The next frame; LinkBroken when there is none any more."""

    async def write(self, frame: bytes) -> None:
        """Done when gRPC has room for more, so that a slow peer slows only its own writer; LinkBroken."""

    async def finish(self) -> None:
        """Nothing more will be written: let everything out, as far as this side can see to it."""


class DialledStream:
    """Our end of a call that we made."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def read(self) -> bytes:
        try:
            frame = await self._call.read()
        except GRPC_ERRORS as error:
            raise await self._broken(error) from None
        if frame is grpc.aio.EOF:
            raise LinkBroken(THE_PEER_ENDED)
        return bytes(frame)

    async def write(self, frame: bytes) -> None:
        try:
            await self._call.write(frame)
        except GRPC_ERRORS as error:
            raise await self._broken(error) from None

    async def finish(self) -> None:
        """Wait for the peer to end it too; somebody has to go on reading."""
        try:
            await self._call.done_writing()
            await self._call.code()
        except GRPC_ERRORS as error:
            raise await self._broken(error) from None

    async def _broken(self, error: Exception) -> LinkBroken:
        if not self._call.done():
            return LinkBroken(clipped(str(error)))
        details = await self._call.details()
        return LinkBroken(clipped(details or THE_PEER_ENDED))


class AcceptedStream:
    """Our end of a call that the peer made; it ends when its handler returns."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self) -> bytes:
        try:
            frame = await self._context.read()
        except GRPC_ERRORS as error:
            raise LinkBroken(clipped(str(error))) from None
        if frame is grpc.aio.EOF:
            raise LinkBroken(THE_PEER_ENDED)
        return bytes(frame)

    async def write(self, frame: bytes) -> None:
        try:
            await self._context.write(frame)
        except GRPC_ERRORS as error:
            raise LinkBroken(clipped(str(error))) from None

    async def finish(self) -> None:
        """Frames go out before the status that follows when the handler returns."""


def clipped(reason: str) -> str:
    """A reason as somebody else put it: bounded, on one line."""
    return "".join(c if c.isprintable() else " " for c in reason[:LINK_REASON_CHARS_MAX])
