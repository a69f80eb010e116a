"""Clients that ask and serve at this node: it numbers their calls for the core, and takes the core's decisions back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from weft.core.call_messages import (
    Answer,
    Ask,
    CallEffect,
    CallFailed,
    CallFault,
    CallInput,
    CancelCall,
    Handed,
    HandedOver,
    HandedTook,
    Question,
    Replied,
    Reply,
    Serve,
    ServerGone,
    StopServing,
    TookReplies,
)
from weft.core.calls import Calls
from weft.errors import UsageError, WeftError
from weft.model import Pattern
from weft.node.clients import Clients
from weft.node.figures import REQUEST_BUCKETS_S, CallFigures, Histogram
from weft.port.calls import CallClient
from weft.port.errors import Busy, NoReply, NoServer, ServerLost, ShuttingDown

CLIENT_CALLS_MAX: Final = 4096  # of one client, waiting for replies
CLIENT_SERVERS_MAX: Final = 256  # patterns that one client serves

ERRORS: Final[dict[CallFault, tuple[type[WeftError], str]]] = {
    CallFault.NO_SERVER: (NoServer, "nobody serves this topic"),
    CallFault.UNREACHABLE: (NoServer, "nobody who serves this topic can be reached"),
    CallFault.BUSY: (Busy, "all servers of this topic have as many requests as they can take"),
    CallFault.LOST: (ServerLost, "the server was lost with the request in hand; it may have handled it"),
    CallFault.TIMED_OUT: (NoReply, "nobody answered in time"),
}


@dataclass(frozen=True, slots=True)
class Pending:
    """A call of a client, with the client's own number."""

    client: CallClient
    own: int
    question: Question
    begun_s: float


@dataclass(slots=True)
class ClientCalls:
    """What one client has open: its own numbers, and the node's."""

    asks: dict[int, int] = field(default_factory=dict)
    servers: dict[int, int] = field(default_factory=dict)
    handed: dict[int, int] = field(default_factory=dict)  # handle -> server
    last_handle: int = 0


class NodeCalls:
    """``CallDesk``, and the core's effects for clients that ask and serve. ``first``: number of the first call, which
    no other life of this node has used."""

    def __init__(
        self, calls: Calls, clients: Clients, feed: Callable[[CallInput], None], now_s: Callable[[], float], first: int
    ) -> None:
        self._calls = calls
        self._clients = clients
        self._feed = feed
        self._now_s = now_s
        self._numbers = count(first)
        self._server_numbers = count(1)
        self._open: dict[CallClient, ClientCalls] = {}
        self._pending: dict[int, Pending] = {}
        self._servers: dict[int, tuple[CallClient, int]] = {}
        self._changed = asyncio.Event()
        self.outcomes: Counter[str] = Counter()
        self.times_s = Histogram(REQUEST_BUCKETS_S)

    # --- coming and going ----------------------------------------------------------------------------------------

    def join(self, client: CallClient) -> None:
        self._clients.admit()
        self._clients.call_streams += 1
        self._open[client] = ClientCalls()

    def leave(self, client: CallClient) -> None:
        known = self._open.pop(client, None)
        if known is None:
            return
        self._clients.call_streams -= 1
        for number in known.asks.values():
            self._end(number, "cancelled")
            self._feed(CancelCall(number))
        for server in known.servers.values():
            del self._servers[server]
            self._feed(ServerGone(server))
        self._changed.set()  # what its servers had in hand is over

    # --- asking --------------------------------------------------------------------------------------------------

    def ask(self, client: CallClient, number: int, question: Question, *, probe: bool = False) -> None:
        known = self._open[client]
        try:
            self._clients.check_open()
            if len(known.asks) >= CLIENT_CALLS_MAX:
                raise Busy("too many requests of one client wait for replies", limit=CLIENT_CALLS_MAX)
            if number in known.asks:
                raise UsageError("two requests with one number", number=number)
        except WeftError as error:
            client.failed(number, error)
            return
        ours = next(self._numbers)
        known.asks[number] = ours
        self._pending[ours] = Pending(client, number, question, self._now_s())
        self._feed(Ask(ours, question, probe))

    def cancel(self, client: CallClient, number: int) -> None:
        ours = self._open[client].asks.pop(number, None)
        if ours is not None:
            self._end(ours, "cancelled")
            self._feed(CancelCall(ours))

    def took_replies(self, client: CallClient, number: int, count: int) -> None:
        ours = self._open[client].asks.get(number)
        if ours is not None:
            self._feed(TookReplies(ours, count))

    def _end(self, number: int, outcome: str) -> Pending | None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            self.outcomes[outcome] += 1
            known = self._open.get(pending.client)
            if known is not None:
                known.asks.pop(pending.own, None)
            self._changed.set()
        return pending

    # --- serving -------------------------------------------------------------------------------------------------

    def serve(self, client: CallClient, server: int, pattern: Pattern, slots: int) -> None:
        known = self._open[client]
        self._clients.check_open()
        if server in known.servers:
            raise UsageError("two servers with one number", number=server)
        if len(known.servers) >= CLIENT_SERVERS_MAX:
            raise Busy("one client serves too many patterns", limit=CLIENT_SERVERS_MAX)
        ours = next(self._server_numbers)
        known.servers[server] = ours
        self._servers[ours] = client, server
        self._feed(Serve(ours, pattern, slots))

    def stop_serving(self, client: CallClient, server: int, *, gone: bool) -> None:
        known = self._open[client]
        ours = known.servers.get(server)
        if ours is None:
            return
        self._feed(StopServing(ours))
        if gone:
            del known.servers[server], self._servers[ours]
            known.handed = {handle: each for handle, each in known.handed.items() if each != ours}
            self._feed(ServerGone(ours))
            self._changed.set()

    def answer(self, client: CallClient, handle: int, reply: Reply) -> None:
        known = self._open[client]
        server = known.handed.get(handle)
        if server is None:
            if handle > known.last_handle:
                raise UsageError("a reply to a request that was not handed to this client", number=handle)
            return  # it is over
        if reply.last:
            del known.handed[handle]
        self._feed(Answer(server, handle, reply))
        self._changed.set()

    # --- what the core decided -----------------------------------------------------------------------------------

    def perform(self, effect: CallEffect) -> None:
        match effect:
            case Replied(number, reply):
                self._replied(number, reply)
            case CallFailed(number, fault, detail):
                pending = self._end(number, fault.value)
                if pending is not None:
                    kind, what = ERRORS[fault]
                    facts = {"topic": pending.question.topic, "node": self._clients.node_id}
                    error = kind(what, **facts, **({"why": detail} if detail else {}))
                    self._clients.count_refusal(error)
                    pending.client.failed(pending.own, error)
            case Handed(server, handle, question):
                self._handed(server, handle, question)
            case HandedOver(server, handle):
                client = self._client_of(server)
                if client is not None and self._open[client].handed.pop(handle, None) is not None:
                    client.over(handle)
                self._changed.set()
            case HandedTook(server, handle, count):
                client = self._client_of(server)
                if client is not None:
                    client.took(handle, count)

    def _replied(self, number: int, reply: Reply) -> None:
        pending = self._pending.get(number)
        if pending is None:
            return
        if reply.last:
            self.times_s.add(self._now_s() - pending.begun_s)
            self._end(number, "failed" if reply.failed else "answered")
        pending.client.replied(pending.own, reply)

    def _handed(self, server: int, handle: int, question: Question) -> None:
        found = self._servers.get(server)
        if found is None:
            return  # the core is told that it is gone
        client, own = found
        known = self._open[client]
        known.handed[handle] = server
        known.last_handle = handle
        client.handed(own, handle, question)

    def _client_of(self, server: int) -> CallClient | None:
        found = self._servers.get(server)
        return None if found is None else found[0]

    # --- the end -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Accept no more requests; those in hand may be answered."""
        for server in list(self._servers):
            self._feed(StopServing(server))

    async def wait_done(self) -> None:
        while self._pending or any(known.handed for known in self._open.values()):
            self._changed.clear()
            await self._changed.wait()

    def close(self, error: WeftError | None = None) -> None:
        """Tell everybody who is still there."""
        end = error or ShuttingDown("this node is shutting down: go to another one", node=self._clients.node_id)
        for client in list(self._open):
            client.ended(end)
            self.leave(client)

    def figures(self) -> CallFigures:
        return CallFigures(self._calls.servers, self._calls.in_hand, self._calls.waiting, self.outcomes, self.times_s)
