"""The stream of requests and replies that a client has with one node at a time (``Calls`` of ``mesh.proto``).

The first request or server opens it. When it is lost, everybody who waits for a reply gets an error. Servers register
again at the next node. The requests that they were handling are over: the askers get an error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from weft.client.background import begin
from weft.client.duplex import Duplex
from weft.client.errors import (
    BadNode,
    Closed,
    NodeShuttingDown,
    ServerLost,
    Unavailable,
    error_of,
    is_retryable,
)
from weft.client.hooks import LOG, notify
from weft.client.nodes import Nodes
from weft.errors import UsageError, WeftError
from weft.wire.mesh import mesh_pb2 as pb

CALLS: Final = "/weft.mesh.v1.Mesh/Calls"
CLIENT_REQUESTS_MAX: Final = 4096  # of one client, waiting for their last reply; nodes accept no more
TOOK_AT_ONCE: Final = 8  # after this many replies the node is told that we took them; it sends up to sixteen ahead


@dataclass(slots=True)
class Asked:
    """A request that was sent. Its replies are put into ``replies``; ``end`` is the error that ended it, if any."""

    number: int
    replies: deque[pb.CallsAnswer] = field(default_factory=deque)
    end: WeftError | None = None
    over: bool = False  # nothing more comes
    taken: int = 0  # replies that were taken, and of which the node was not told yet
    _waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> pb.CallsAnswer | None:
        """The next reply; None after the last one. If the request has failed, raise its error."""
        while not self.replies:
            if self.end is not None:
                raise self.end
            if self.over:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.replies.popleft()


class HandedClient:
    """A server of a pattern, as the stream sees it: it is told of requests, and of their end."""

    pattern: str
    slots: int

    def serving(self, error: WeftError | None) -> None:
        """A node knows of this server now, or has refused it."""

    def handed(self, link: CallLink, handed: pb.CallsHanded) -> None: ...

    def over(self, handle: int) -> None: ...

    def took(self, handle: int, count: int) -> None: ...

    def lost(self) -> None:
        """The stream was lost, so all requests that this server has are over."""


class CallLink:
    """One stream to one node. Once the stream is lost, messages are dropped."""

    def __init__(self, call: Duplex[pb.CallsRequest, pb.CallsReply], opened: pb.CallsOpened) -> None:
        self.node = opened.node_id
        self.payload_bytes_max = opened.payload_bytes_max
        self.window = opened.window
        self.lost = False
        self._call = call

    def say(self, message: pb.CallsRequest) -> None:
        if not self.lost:
            self._call.call.write_now(message.SerializeToString())

    async def room(self) -> None:
        """Wait until the node takes more."""
        if not self.lost and self._call.call.is_full:
            await self._call.call.wait_for_room()


class ClientCalls:
    """All requests and servers of a client."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._numbers = count(1)
        self._asked: dict[int, Asked] = {}
        self._servers: dict[int, HandedClient] = {}
        self._server_of: dict[int, int] = {}  # by handle
        self._link: CallLink | None = None
        self._opening: asyncio.Future[CallLink] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    # --- asking --------------------------------------------------------------------------------------------------

    async def ask(
        self, topic: str, payload: bytes, headers: Mapping[str, str], timeout_s: float, *, durable: bool, probe: bool
    ) -> Asked:
        """Send a request. Call ``done`` afterwards, in any case."""
        if len(self._asked) >= CLIENT_REQUESTS_MAX:
            raise UsageError("too many requests wait for their replies", limit=CLIENT_REQUESTS_MAX)
        link = self._link or await self._linked()
        if len(payload) > link.payload_bytes_max:
            raise UsageError("the request is too large", have=len(payload), limit=link.payload_bytes_max)
        asked = Asked(next(self._numbers))
        self._asked[asked.number] = asked
        ask = pb.CallsAsk(
            number=asked.number,
            topic=topic,
            payload=payload,
            headers=headers,
            timeout_s=timeout_s,
            durable=durable,
            probe=probe,
        )
        link.say(pb.CallsRequest(ask=ask))
        return asked

    def done(self, asked: Asked) -> None:
        """Forget a request. If its last reply has not come yet, cancel it at the node."""
        if self._asked.pop(asked.number, None) is not None and not asked.over and self._link is not None:
            self._link.say(pb.CallsRequest(cancel=pb.CallsCancel(number=asked.number)))

    def took(self, asked: Asked) -> None:
        """Count one more reply as taken, and tell the node now and then, so that it sends more."""
        asked.taken += 1
        if asked.taken >= TOOK_AT_ONCE and self._link is not None and not asked.over:
            self._link.say(pb.CallsRequest(took=pb.CallsTook(number=asked.number, count=asked.taken)))
            asked.taken = 0

    # --- serving -------------------------------------------------------------------------------------------------

    def serve(self, server: HandedClient) -> int:
        number = next(self._numbers)
        self._servers[number] = server
        if self._link is not None:
            self._tell_server(self._link, number, server)
        self._begin()
        return number

    def stop(self, number: int, *, gone: bool) -> None:
        if self._link is not None and number in self._servers:
            self._link.say(pb.CallsRequest(stop=pb.CallsStop(number=number, gone=gone)))
        if gone:
            self._servers.pop(number, None)

    def _tell_server(self, link: CallLink, number: int, server: HandedClient) -> None:
        serve = pb.CallsServe(number=number, pattern=server.pattern, slots=server.slots)
        link.say(pb.CallsRequest(serve=serve))

    # --- the stream ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._opening = loop.create_future()
            self._task = begin(loop, self._run(), "weft calls")

    async def _linked(self) -> CallLink:
        while self._link is None:
            self._begin()
            assert self._opening is not None, "it was begun"
            await asyncio.wait({self._opening})
            if not self._opening.cancelled():
                self._opening.result()
        return self._link

    async def _run(self) -> None:
        """Run one stream after the other, until the client is closed or no other node can help."""
        backoff = self._nodes.backoff()
        attempts = self._nodes.attempts("calls", backoff, self._nodes.last_good)
        reason: object = "connection lost"
        while not self._is_closed:
            address = await attempts.next(reason)
            begun_s = asyncio.get_running_loop().time()
            try:
                await self._run_at(address)
                reason = Unavailable("the node ended the stream", node=address)
            except WeftError as error:
                if not is_retryable(error):
                    self._fail(error)
                    return
                reason = error
            if asyncio.get_running_loop().time() - begun_s > self._nodes.options.backoff_s_max:
                backoff.succeeded()
            avoided = address if isinstance(reason, NodeShuttingDown) else None
            if avoided or not backoff.failures:
                backoff.failed()
                attempts = self._nodes.attempts("calls", backoff, None if avoided else address, avoided)

    async def _run_at(self, address: str) -> None:
        call: Duplex[pb.CallsRequest, pb.CallsReply]
        call = Duplex(self._nodes, address, CALLS, pb.CallsReply, self._nodes.open_standing)
        link: CallLink | None = None
        try:
            reply = await call.begin(pb.CallsRequest(open=pb.CallsOpen()))
            if reply.WhichOneof("msg") != "opened":
                raise BadNode("the node did not begin with opened", node=address)
            link = CallLink(call, reply.opened)
            self._nodes.book.learn_untrusted(reply.opened.addresses)
            self._nodes.last_good = address
            LOG.info("requests and replies by way of %s (%s)", link.node, address)
            notify(self._nodes.hooks.on_connected, address, link.node, "calls")
            self._has_opened(link)
            await call.deliver_to(self._take_untrusted)
        except WeftError as error:
            if link is not None:
                notify(self._nodes.hooks.on_disconnected, address, link.node, "calls", str(error))
            raise
        finally:
            call.cancel()
            self._lose()

    def _has_opened(self, link: CallLink) -> None:
        self._link = link
        for number, server in self._servers.items():
            self._tell_server(link, number, server)
        if self._opening is not None and not self._opening.done():
            self._opening.set_result(link)

    def _lose(self) -> None:
        if self._link is None:
            return
        self._link.lost = True
        lost = ServerLost(
            "the connection to the node was lost; the request may have been handled", node=self._link.node
        )
        self._link = None
        self._opening = asyncio.get_running_loop().create_future()
        self._end_asked(lost)
        self._server_of.clear()
        for server in list(self._servers.values()):
            server.lost()

    def _end_asked(self, error: WeftError) -> None:
        for asked in self._asked.values():
            if not asked.over:
                asked.over, asked.end = True, error
                asked.wake()

    def _fail(self, error: WeftError) -> None:
        """Give up: no other node can help."""
        self._end_asked(error)
        for server in list(self._servers.values()):
            server.serving(error)
        self._servers.clear()
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(error)
            self._opening.exception()

    def _take_untrusted(self, reply: pb.CallsReply) -> None:
        match reply.WhichOneof("msg"):
            case "answer":
                self._answered(reply.answer)
            case "failed":
                asked = self._asked.get(reply.failed.number)
                if asked is not None:
                    asked.over, asked.end = True, error_of(reply.failed.error)
                    asked.wake()
            case "handed":
                self._handed(reply.handed)
            case "over":
                self._of(reply.over.number, lambda server, handle: server.over(handle))
                self._server_of.pop(reply.over.number, None)
            case "took":
                self._of(reply.took.number, lambda server, handle: server.took(handle, reply.took.count))
            case "serving":
                server = self._servers.get(reply.serving.number)
                if server is not None:
                    self._serving(reply.serving, server)
            case _:
                pass  # from a later version

    def _serving(self, told: pb.CallsServing, server: HandedClient) -> None:
        if not told.HasField("error"):
            server.serving(None)
            return
        error = error_of(told.error, pattern=server.pattern)
        if isinstance(error, NodeShuttingDown):
            raise error  # another node may accept it
        self._servers.pop(told.number, None)
        server.serving(error)

    def _answered(self, answer: pb.CallsAnswer) -> None:
        asked = self._asked.get(answer.number)
        if asked is None:
            return  # nobody waits for it any longer
        asked.replies.append(answer)
        asked.over = answer.last
        asked.wake()

    def _handed(self, handed: pb.CallsHanded) -> None:
        server = self._servers.get(handed.server)
        assert self._link is not None, "it has come by this"
        if server is not None:
            self._server_of[handed.number] = handed.server
            server.handed(self._link, handed)

    def _of(self, handle: int, tell: Callable[[HandedClient, int], None]) -> None:
        server = self._servers.get(self._server_of.get(handle, 0))
        if server is not None:
            tell(server, handle)

    def answered(self, handle: int) -> None:
        """The last reply to this request was sent."""
        self._server_of.pop(handle, None)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._end_asked(Closed("the client is closed"))
