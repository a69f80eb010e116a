"""Puts the services for clients on a gRPC server."""

from __future__ import annotations

from typing import Any, Final

import grpc

from weft.transport.grpc.access import Access, admitted
from weft.transport.grpc.mesh_node import MeshNode
from weft.transport.grpc.mesh_publish import PublishStream
from weft.transport.grpc.mesh_queries import Queries
from weft.transport.grpc.mesh_subscribe import SubscribeStream
from weft.wire.mesh import mesh_pb2 as pb

MESH: Final = "weft.mesh.v1.Mesh"


def add_mesh(server: grpc.aio.Server, node: MeshNode, access: Access) -> None:
    """Serve ``Mesh``. The two streams take and give raw bytes: bad ones are refused in words, not by gRPC. ``Fetch``
    gives raw bytes, too, because they are many."""

    async def publish(_: Any, context: Any) -> None:
        caller = await admitted(access, context)
        stream = PublishStream(node, caller)
        with access.watching(caller, stream.expel):
            await stream.run(context)

    async def subscribe(_: Any, context: Any) -> None:
        caller = await admitted(access, context)
        stream = SubscribeStream(node, caller)
        with access.watching(caller, stream.expel):
            await stream.run(context)

    queries = Queries(node, access)
    handlers = {
        "Publish": grpc.stream_stream_rpc_method_handler(publish),
        "Subscribe": grpc.stream_stream_rpc_method_handler(subscribe),
        "Fetch": grpc.unary_stream_rpc_method_handler(queries.fetch, pb.FetchRequest.FromString),
        "Positions": unary(queries.positions, pb.PositionsRequest),
        "Commit": unary(queries.commit, pb.CommitRequest),
        "Topics": unary(queries.topics, pb.TopicsRequest),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(MESH, handlers),))


def unary(call: Any, request: Any) -> Any:
    """A call with one message each way."""
    return grpc.unary_unary_rpc_method_handler(call, request.FromString, lambda reply: reply.SerializeToString())
