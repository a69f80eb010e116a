"""A stream of messages both ways with one node: gRPC's call, with its errors translated here and nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Generic, TypeVar

import grpc

from weft.client.errors import Unavailable, error_of_status
from weft.client.nodes import Nodes, status_error
from weft.errors import WeftError

Q = TypeVar("Q")
R = TypeVar("R")


class Duplex(Generic[Q, R]):
    """An open call. Whatever goes wrong with it is raised as a WeftError that names the node."""

    def __init__(self, nodes: Nodes, address: str, method: str, request_type: type[Q], reply_type: type[R]) -> None:
        self.address: Final = address
        self._open_timeout_s = nodes.options.open_timeout_s
        dial = nodes.channel(address).stream_stream(
            method,
            request_serializer=request_type.SerializeToString,  # type: ignore[attr-defined]
            response_deserializer=reply_type.FromString,  # type: ignore[attr-defined]
        )
        self._call: Any = dial(metadata=nodes.metadata)

    async def begin(self, first: Q) -> R:
        """Send the first message and wait for the first reply, for as long as one node may take."""
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await self.write(first)
                reply = await self.read()
        except TimeoutError:
            raise Unavailable("node does not answer", node=self.address, waited_s=self._open_timeout_s) from None
        if reply is None:
            raise Unavailable("node ended the stream before it began", node=self.address)
        return reply

    async def write(self, message: Q) -> None:
        try:
            await self._call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise await self._reason(error) from None

    async def read(self) -> R | None:
        """The next message, or None if the node has ended the stream in order."""
        try:
            reply = await self._call.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise await self._reason(error) from None
        if reply is not grpc.aio.EOF:
            return reply  # type: ignore[no-any-return]
        if await self._call.code() is grpc.StatusCode.OK:
            return None
        raise await self._reason(None)

    async def done_writing(self) -> None:
        try:
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise await self._reason(error) from None

    def cancel(self) -> None:
        self._call.cancel()

    async def _reason(self, error: Exception | None) -> WeftError:
        """Why the stream ended: the status that came with its end."""
        if isinstance(error, grpc.aio.AioRpcError):
            return status_error(error, self.address)
        call = self._call
        details = str(await call.details() or "")
        return error_of_status(await call.code(), details, await call.trailing_metadata(), node=self.address)
