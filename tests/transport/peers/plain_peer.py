"""A peer that somebody wrote from the design document alone: its proto, its four messages, nothing of ours."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

# As it stands in the document.
PROTO = """
syntax = "proto3";

service PeerLink {
  rpc EventStream(stream PeerMessage) returns (stream PeerMessage);
}

message PeerMessage {
  oneof msg {
    Handshake handshake = 1;
    Event event = 2;
    Ack ack = 3;
    Heartbeat heartbeat = 4;
  }
}

message Handshake {
  string node_id = 1;
  int32 protocol_version = 2;
  repeated string features = 3; // optional
}

message Event {
  string topic = 1;
  int64 offset = 2;
  bytes payload = 3;
  map<string,string> headers = 4;
}

message Ack {
  string topic = 1;
  int64 offset = 2;
}

message Heartbeat {
  int64 timestamp = 1;
}
"""
PATIENCE_S = 30


@cache
def peer_message_class() -> Any:
    """PeerMessage of the proto above, in a pool of its own: ours has messages of the same names."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "document.proto").write_text(PROTO)
        out = Path(folder, "document.bin")
        assert protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={out}", "document.proto"]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("PeerMessage"))


class PlainPeer:
    """Speaks when it is told to, and keeps everything it hears."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.heard: list[Any] = []
        self.details = ""  # how the stream ended
        self._changed = asyncio.Event()
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self._server: Any = None
        self._channel: Any = None
        self._task: asyncio.Task[None] | None = None

    def say(self, **message: Any) -> None:
        self._outgoing.put_nowait(peer_message_class()(**message))

    def say_hello(self, version: int = 1) -> None:
        self.say(handshake={"node_id": self.node_id, "protocol_version": version})

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def of_kind(self, kind: str) -> list[Any]:
        return [getattr(message, kind) for message in self.heard if message.WhichOneof("msg") == kind]

    async def dial(self, address: str) -> None:
        """As the initiator, which says hello first."""
        self._channel = grpc.aio.insecure_channel(address)
        call = self._channel.stream_stream(
            "/PeerLink/EventStream",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=peer_message_class().FromString,
        )(self._outgoing_messages())
        self.say_hello()
        self._task = asyncio.create_task(self._listen(call))

    async def _listen(self, call: Any) -> None:
        try:
            async for message in call:
                self._hear(message)
        except grpc.aio.AioRpcError as error:
            self.details = error.details() or ""
        self._changed.set()

    async def serve(self) -> str:
        """As the responder; where it listens."""
        handler = grpc.stream_stream_rpc_method_handler(
            self._answer,
            request_deserializer=peer_message_class().FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("PeerLink", {"EventStream": handler}),)
        )
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return f"127.0.0.1:{port}"

    async def _answer(self, requests: Any, context: Any) -> None:
        self._hear(await context.read())
        self.say_hello()
        writer = asyncio.create_task(self._write(context))
        try:
            while (message := await context.read()) is not grpc.aio.EOF:
                self._hear(message)
        finally:
            writer.cancel()

    async def _write(self, context: Any) -> None:
        async for message in self._outgoing_messages():
            await context.write(message)

    async def _outgoing_messages(self) -> Any:
        while True:
            yield await self._outgoing.get()

    def _hear(self, message: Any) -> None:
        self.heard.append(message)
        self._changed.set()

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._server is not None:
            await self._server.stop(None)
