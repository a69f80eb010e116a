"""A stream of messages with one node, in both directions: a gRPC call whose errors become ours, here and nowhere
else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from weft.client.errors import Unavailable, error_of_call, parsed_untrusted
from weft.client.nodes import Nodes
from weft.errors import WeftError
from weft.transport.grpc.calls import ClientCall
from weft.wire.rpc import RpcError

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

Opening: TypeAlias = Callable[[str, str], Awaitable[ClientCall]]  # from an address and a method


class Duplex(Generic[Q, R]):
    """A call. ``begin`` opens it by calling ``opening``. Every failure is raised as a WeftError that names the node."""

    def __init__(self, nodes: Nodes, address: str, method: str, reply_type: type[R], opening: Opening) -> None:
        self.address: Final = address
        self._nodes = nodes
        self._method = method
        self._reply_type = reply_type
        self._opening = opening
        self._call: ClientCall | None = None
        self._take: Callable[[bytes], None] | None = None  # gets the messages as they come
        self._unread: deque[bytes] = deque()  # messages that came after ``hold``
        self._is_held = False
        self._failure: Exception | None = None  # raised by ``_take``

    async def begin(self, first: Q, following: Iterable[Q] = ()) -> R:
        """Send the first message and those that belong to it, and wait for the reply, for ``open_timeout_s`` at
        most."""
        limit_s = self._nodes.options.open_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                self._call = await self._opening(self.address, self._method)
                await self.write(first)
                for message in following:
                    await self.write(message)
                reply = await self.read()
        except TimeoutError:
            raise Unavailable("node does not answer", node=self.address, waited_s=limit_s) from None
        if reply is None:
            raise Unavailable("node ended the stream before it began", node=self.address)
        return reply

    @property
    def call(self) -> ClientCall:
        assert self._call is not None, "it has begun"
        return self._call

    async def write(self, message: Q) -> None:
        """Write at once, because somebody may be waiting for the answer. Returns when there is room for more."""
        self.write_now(message)
        await self.wait_for_room()

    def write_now(self, message: Q) -> None:
        """Write without waiting. If the call is over, nothing happens: the reader gets the error."""
        self.call.write_now(message.SerializeToString())

    async def wait_for_room(self) -> None:
        try:
            await self.call.wait_for_room()
        except RpcError as error:
            raise error_of_call(error, node=self.address) from None

    async def read(self) -> R | None:
        """The next message, or None if the node has ended the stream properly."""
        try:
            data = await self.call.read()
        except RpcError as error:
            raise error_of_call(error, node=self.address) from None
        return None if data is None else self.parsed_untrusted(data)

    async def deliver_to(self, take: Callable[[R], None]) -> None:
        """Hand over every message as it comes, until the stream ends. An error raised by ``take`` ends it, too."""
        await self.deliver_bytes_to(lambda data: take(self.parsed_untrusted(data)))

    def parsed_untrusted(self, data: bytes) -> R:
        """A message of the node; raise only BadNode."""
        return parsed_untrusted(self._reply_type, data, self.address)

    async def deliver_bytes_to(self, take: Callable[[bytes], None]) -> None:
        """Do the same with messages as bytes."""
        self._take = take
        self.call.deliver_to(self._take_untrusted)
        try:
            await self.read()
        except WeftError:
            self._hand_over_rest()
            if self._failure is None:
                raise
        self._hand_over_rest()
        if self._failure is not None:
            raise self._failure

    def hold(self) -> None:
        """Hand over nothing more for now. The node can then send no more than its window."""
        self._is_held = True
        self.call.hold()

    def go_on(self) -> None:
        self._is_held = False
        while self._unread and not self._is_held:
            self._take_untrusted(self._unread.popleft())
        if not self._is_held:
            self.call.release()

    def _hand_over_rest(self) -> None:
        """The stream has ended: hand over the messages that still wait here."""
        while self._unread:
            self.go_on()

    def _take_untrusted(self, data: bytes) -> None:
        if self._is_held:
            self._unread.append(data)
        elif self._failure is None:
            assert self._take is not None, "there is somebody who takes"
            try:
                self._take(data)
            except Exception as error:
                self._failure = error
                self.call.cancel()

    def done_writing(self) -> None:
        self.call.end()

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
