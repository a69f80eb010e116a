"""The methods of the gRPC services, and which code serves each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Final, TypeVar

from google.protobuf.message import Message

from weft.errors import WeftError
from weft.port.access import Access, Caller
from weft.port.calls import CallDesk
from weft.port.held import HeldBytes, Use
from weft.port.kv import KeyValueStore
from weft.port.later import LaterStore, ScheduleStore
from weft.port.node import MeshNode
from weft.port.schemas import SchemaStore
from weft.transport.clients.admin import Answers, KeyAnswers, admin_methods, key_methods
from weft.transport.clients.admitting import admitted
from weft.transport.clients.calls import CallStream
from weft.transport.clients.dead_letters import DeadLetterQueries
from weft.transport.clients.failing import failure_of
from weft.transport.clients.kv import KvCalls
from weft.transport.clients.later import LaterCalls
from weft.transport.clients.publish import PublishStream
from weft.transport.clients.queries import Queries
from weft.transport.clients.schedules import ScheduleCalls
from weft.transport.clients.schemas import SchemaCalls
from weft.transport.clients.subscribe import SubscribeStream
from weft.transport.clients.values import parse_untrusted
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.server import Handler
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb

MESH: Final = "weft.mesh.v1.Mesh"
ADMIN: Final = "weft.mesh.v1.Admin"
Q = TypeVar("Q", bound=Message)


def mesh_handlers(
    node: MeshNode,
    store: KeyValueStore,
    desk: CallDesk,
    later: LaterStore,
    schedules: ScheduleStore,
    schemas: SchemaStore,
    access: Access,
) -> dict[str, Handler]:
    async def publish(call: ServerCall) -> None:
        caller = await admitted(access, call)
        stream = PublishStream(node, later, caller, call, checking)
        with access.watching(caller, stream.expel):
            await stream.run()

    async def subscribe(call: ServerCall) -> None:
        caller = await admitted(access, call)
        stream = SubscribeStream(node, caller, call)
        with access.watching(caller, stream.expel):
            await stream.run()

    async def calls(call: ServerCall) -> None:
        caller = await admitted(access, call)
        stream = CallStream(node, desk, caller, call)
        with access.watching(caller, stream.expel):
            await stream.run()

    async def fetch(call: ServerCall) -> None:
        caller = await admitted(access, call)
        request = await request_untrusted(pb.FetchRequest, call)
        with access.watching(caller, lambda _: None):
            await queries.fetch(request, call, caller)

    async def watch(call: ServerCall) -> None:
        caller = await admitted(access, call)
        request = await request_untrusted(pb.KvWatchRequest, call)
        await buckets.watch(request, call, caller)

    queries = Queries(node)
    dead = DeadLetterQueries(node)
    buckets = KvCalls(node, store, access)
    waiting = LaterCalls(node, later)
    timetable = ScheduleCalls(node, schedules)
    registry = SchemaCalls(node, schemas)
    checking = asyncio.Lock()
    return {
        f"/{MESH}/Publish": publish,
        f"/{MESH}/Subscribe": subscribe,
        f"/{MESH}/Calls": calls,
        f"/{MESH}/Fetch": fetch,
        f"/{MESH}/Positions": unary(access, node.held, queries.positions, pb.PositionsRequest),
        f"/{MESH}/Commit": unary(access, node.held, queries.commit, pb.CommitRequest),
        f"/{MESH}/DropGroup": unary(access, node.held, queries.drop_group, pb.DropGroupRequest),
        f"/{MESH}/Topics": unary(access, node.held, queries.topics, pb.TopicsRequest),
        f"/{MESH}/DeadLetters": unary(access, node.held, dead.letters, pb.DeadLettersRequest),
        f"/{MESH}/DropDeadLetters": unary(access, node.held, dead.drop, pb.DropDeadLettersRequest),
        f"/{MESH}/Trace": unary(access, node.held, queries.trace, pb.TraceRequest),
        f"/{MESH}/Whoami": unary(access, node.held, queries.whoami, pb.WhoamiRequest),
        f"/{MESH}/Later": unary(access, node.held, waiting.list, pb.LaterRequest),
        f"/{MESH}/CancelLater": unary(access, node.held, waiting.cancel, pb.CancelLaterRequest),
        f"/{MESH}/Schedules": unary(access, node.held, timetable.list, pb.SchedulesRequest),
        f"/{MESH}/PutSchedule": unary(access, node.held, timetable.put, pb.PutScheduleRequest),
        f"/{MESH}/RemoveSchedule": unary(access, node.held, timetable.remove, pb.RemoveScheduleRequest),
        f"/{MESH}/PauseSchedule": unary(access, node.held, timetable.pause, pb.PauseScheduleRequest),
        f"/{MESH}/Schemas": unary(access, node.held, registry.list, pb.SchemasRequest),
        f"/{MESH}/PutSchema": unary(access, node.held, registry.put, pb.PutSchemaRequest),
        f"/{MESH}/RemoveSchema": unary(access, node.held, registry.remove, pb.RemoveSchemaRequest),
        f"/{MESH}/KvGet": unary(access, node.held, buckets.get, pb.KvGetRequest),
        f"/{MESH}/KvWrite": unary(access, node.held, buckets.write, pb.KvWriteRequest),
        f"/{MESH}/KvList": unary(access, node.held, buckets.list, pb.KvListRequest),
        f"/{MESH}/KvHistory": unary(access, node.held, buckets.history, pb.KvHistoryRequest),
        f"/{MESH}/KvWatch": watch,
        f"/{MESH}/KvBuckets": unary(access, node.held, buckets.buckets, pb.KvBucketsRequest),
        f"/{MESH}/KvConfigure": unary(access, node.held, buckets.configure, pb.KvConfigureRequest),
    }


def admin_handlers(answers: Answers, keys: KeyAnswers, access: Access, held: HeldBytes) -> dict[str, Handler]:
    return {
        f"/{ADMIN}/{name}": unary(access, held, method, request)
        for name, (method, request) in (admin_methods(answers) | key_methods(keys)).items()
    }


def unary(
    access: Access, held: HeldBytes, answer: Callable[[Q, Caller], Awaitable[Message]], request_type: type[Q]
) -> Handler:
    """Make the handler of a method with one message each way. A WeftError that ``answer`` raises ends the call."""

    async def serve(call: ServerCall) -> None:
        caller = await admitted(access, call)
        request = await request_untrusted(request_type, call)
        with closing(held.holding(caller.who, Use.ASK)) as holding:
            try:
                await holding.room()
                data = (await answer(request, caller)).SerializeToString()
            except WeftError as error:
                raise failure_of(error) from None
            holding.take(len(data))
            call.write_nowait(data)
            await call.wait_sent()

    return serve


async def request_untrusted(kind: type[Q], call: ServerCall) -> Q:
    """Read the one message of a request. RpcError if there is none or more than one, or if it cannot be read."""
    data = await call.read()
    if data is None or await call.read() is not None:
        raise failure_of(BadMeshMessage("a request is one message"))
    try:
        return parse_untrusted(kind, data)
    except BadMeshMessage as error:
        raise failure_of(error) from None
