"""Calls: requests and replies of one client, both ways, in one stream.

Messages are handled in the turn of the loop in which they come, and the node's answers leave in the same turn. A client
that does not read its messages loses its calls or its servers: nothing is kept for later.
"""

from __future__ import annotations

import asyncio
from typing import Final

from weft.core.call_messages import (
    CALL_ERROR_CHARS_MAX,
    CALL_PAYLOAD_BYTES_MAX,
    CALL_SLOTS_MAX,
    CALL_WINDOW,
    Question,
    Reply,
)
from weft.core.calls import SERVE_PREFIX
from weft.core.topics import is_own
from weft.errors import PeerError, UsageError, WeftError
from weft.limits import MIB, TOPIC_BYTES_MAX
from weft.model import Pattern
from weft.port.access import Caller
from weft.port.calls import CallDesk, checked_question
from weft.port.errors import Busy, TooLarge, error_message
from weft.port.node import MeshNode
from weft.port.topics import read_topic_untrusted
from weft.transport.clients.failing import cancelled, failure_of
from weft.transport.clients.values import parse_untrusted, read_pattern_untrusted
from weft.transport.grpc.calls import ServerCall
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.checks import check_headers

UNSENT_BYTES_MAX: Final = 16 * MIB  # a client that leaves this much unread gets nothing more
EVENT_CHARS_MAX: Final = 512  # of the place where a reply is kept


class CallStream:
    """One client's stream. The desk calls it as a ``CallClient``."""

    def __init__(self, node: MeshNode, desk: CallDesk, caller: Caller, call: ServerCall) -> None:
        self._node = node
        self._desk = desk
        self._caller = caller
        self._call = call
        self._usage = node.quotas.usage(caller)
        self._loop = asyncio.get_running_loop()
        self._servers: set[int] = set()
        self._over = asyncio.Event()
        self._failure: WeftError | None = None

    # --- what the node says --------------------------------------------------------------------------------------

    def replied(self, number: int, reply: Reply) -> None:
        answer = pb.CallsAnswer(
            number=number,
            payload=reply.payload,
            headers=dict(reply.headers),
            last=reply.last,
            failed=reply.failed,
            event=reply.event,
        )
        self._say(pb.CallsReply(answer=answer))

    def failed(self, number: int, error: WeftError) -> None:
        self._say(pb.CallsReply(failed=pb.CallsFailed(number=number, error=error_message(error))))

    def handed(self, server: int, handle: int, question: Question) -> None:
        handed = pb.CallsHanded(
            server=server,
            number=handle,
            topic=question.topic,
            payload=question.payload,
            headers=dict(question.headers),
            timeout_s=question.timeout_s,
            durable=question.durable,
        )
        self._say(pb.CallsReply(handed=handed))

    def over(self, handle: int) -> None:
        self._say(pb.CallsReply(over=pb.CallsCancel(number=handle)))

    def took(self, handle: int, count: int) -> None:
        self._say(pb.CallsReply(took=pb.CallsTook(number=handle, count=count)))

    def ended(self, error: WeftError) -> None:
        self._end(error)

    def expel(self, error: WeftError) -> None:
        """The caller may do nothing more."""
        self._end(error)

    def _say(self, reply: pb.CallsReply) -> None:
        if self._call.unsent_bytes > UNSENT_BYTES_MAX:
            self._end(Busy("the client does not read its messages", limit=UNSENT_BYTES_MAX))
        if not self._over.is_set():
            self._call.write_now(reply.SerializeToString())

    def _end(self, failure: WeftError | None) -> None:
        if not self._over.is_set():
            self._over.set()
            self._failure = failure

    # --- the stream ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        reading = asyncio.create_task(self._read())
        try:
            await self._over.wait()
        finally:
            self._desk.leave(self)
            for _ in self._servers:
                self._usage.unsubscribed()
            await cancelled(reading)
        if self._failure is not None:
            raise failure_of(self._failure) from None

    async def _read(self) -> None:
        """Read the first message. From then on messages are handled as they come, and this only waits for the end."""
        failure: WeftError | None = None
        try:
            data = await self._call.read()
            if data is not None:
                self._open(parse_untrusted(pb.CallsRequest, data))
                self._call.deliver_to(self._take_untrusted)
                await self._call.read()
        except WeftError as error:
            failure = error
        finally:
            self._end(failure)

    def _open(self, request: pb.CallsRequest) -> None:
        if request.WhichOneof("msg") != "open":
            raise BadMeshMessage("a stream of calls begins with open")
        self._desk.join(self)
        opened = pb.CallsOpened(
            node_id=self._node.node_id,
            addresses=self._node.addresses(),
            payload_bytes_max=CALL_PAYLOAD_BYTES_MAX,
            window=CALL_WINDOW,
        )
        self._say(pb.CallsReply(opened=opened))

    def _take_untrusted(self, data: bytes) -> None:
        if self._over.is_set():
            return
        try:
            self._take(parse_untrusted(pb.CallsRequest, data))
        except (UsageError, PeerError) as error:
            self._end(error)

    def _take(self, request: pb.CallsRequest) -> None:
        desk = self._desk
        match request.WhichOneof("msg"):
            case "ask":
                self._ask(request.ask)
            case "answer":
                desk.answer(self, request.answer.number, _read_answer_untrusted(request.answer))
            case "took":
                desk.took_replies(self, request.took.number, min(request.took.count, CALL_WINDOW))
            case "cancel":
                desk.cancel(self, request.cancel.number)
            case "serve":
                self._serve(request.serve)
            case "stop":
                desk.stop_serving(self, request.stop.number, gone=request.stop.gone)
                if request.stop.gone and request.stop.number in self._servers:
                    self._servers.remove(request.stop.number)
                    self._usage.unsubscribed()
            case _:
                raise BadMeshMessage("after open, a stream of calls carries requests, replies and what concerns them")

    def _ask(self, ask: pb.CallsAsk) -> None:
        try:
            question = _read_question_untrusted(ask)
            self._caller.check_publish(question.topic)
            if not ask.probe:
                self._usage.ask(question.topic, question.size, self._loop.time())
        except WeftError as error:
            self._node.count_refusal(error)
            self.failed(ask.number, error)
        else:
            self._desk.ask(self, ask.number, question, probe=ask.probe)

    def _serve(self, serve: pb.CallsServe) -> None:
        serving = pb.CallsServing(number=serve.number)
        try:
            pattern = read_pattern_untrusted(serve.pattern)
            if is_own(pattern):
                raise UsageError("topics of the mesh itself are not served", pattern=pattern)
            if len(SERVE_PREFIX) + len(pattern.encode()) > TOPIC_BYTES_MAX:
                raise TooLarge("pattern is too long to be served", limit=TOPIC_BYTES_MAX - len(SERVE_PREFIX))
            if not 1 <= serve.slots <= CALL_SLOTS_MAX:
                raise UsageError("requests at once are out of range", value=serve.slots, least=1, most=CALL_SLOTS_MAX)
            self._caller.check_serve(pattern)
            self._begin_serving(serve.number, pattern, serve.slots)
        except WeftError as error:
            self._node.count_refusal(error)
            serving.error.CopyFrom(error_message(error))
        self._say(pb.CallsReply(serving=serving))

    def _begin_serving(self, number: int, pattern: Pattern, slots: int) -> None:
        self._usage.subscribe()
        try:
            self._desk.serve(self, number, pattern, slots)
        except WeftError:
            self._usage.unsubscribed()
            raise
        self._servers.add(number)


def _read_question_untrusted(ask: pb.CallsAsk) -> Question:
    topic = read_topic_untrusted(ask.topic)
    return checked_question(Question(topic, ask.payload, dict(ask.headers), ask.timeout_s, ask.durable))


def _read_answer_untrusted(answer: pb.CallsAnswer) -> Reply:
    """Read a reply. One that is too large becomes a refusal that says so, so that the asker does not wait in vain."""
    headers = dict(answer.headers)
    check_headers(headers)
    if len(answer.payload) > CALL_PAYLOAD_BYTES_MAX:
        what = f"the reply has {len(answer.payload)} bytes, the limit is {CALL_PAYLOAD_BYTES_MAX}"
        return Reply(what.encode(), failed=True)
    payload = answer.payload[: 4 * CALL_ERROR_CHARS_MAX] if answer.failed else answer.payload
    return Reply(payload, headers, answer.last, answer.failed, answer.event[:EVENT_CHARS_MAX])
