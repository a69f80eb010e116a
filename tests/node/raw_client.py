"""A client of the Mesh and Admin services made of nothing but gRPC calls, so that tests see every message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc

from weft.model import Batch
from weft.wire.mesh import mesh_pb2 as pb

WAIT_S: Final = 60.0  # a bound, not an expectation: the machine may be busy
PRODUCER: Final = b"producer-of-test"
EARLIEST: Final = pb.Start(edge=pb.Start.EDGE_EARLIEST)
CREDIT_BYTES: Final = 1 << 20


def batch_of(*payloads: bytes, sequence: int | None = None, timestamp_us: int = 1_000_000) -> Batch:
    if sequence is None:
        return Batch.from_columns(payloads, timestamp_us)
    return Batch.from_columns(payloads, timestamp_us, producer=PRODUCER, sequence=sequence)


class RawClient:
    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(
            address,
            [
                ("grpc.max_receive_message_length", 1 << 25),
                ("grpc.max_send_message_length", 1 << 25),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def call(self, method: str, request: Any, reply: Any, service: str = "Mesh") -> Any:
        make = self.channel.unary_unary(
            f"/weft.mesh.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return await asyncio.wait_for(make(request), WAIT_S)

    async def fetch(self, request: pb.FetchRequest) -> list[pb.FetchReply]:
        make = self.channel.unary_stream(
            "/weft.mesh.v1.Mesh/Fetch",
            request_serializer=pb.FetchRequest.SerializeToString,
            response_deserializer=pb.FetchReply.FromString,
        )
        async with asyncio.timeout(WAIT_S):
            return [reply async for reply in make(request)]

    def stream(self, method: str, reply: Any) -> Any:
        make = self.channel.stream_stream(f"/weft.mesh.v1.Mesh/{method}", None, reply.FromString)
        return make()

    async def publisher(self) -> RawPublisher:
        publisher = RawPublisher(self.stream("Publish", pb.PublishReply))
        await publisher.say(pb.PublishRequest(open=pb.PublishOpen(producer_id=PRODUCER)))
        publisher.opened = (await publisher.read()).opened
        return publisher

    async def subscriber(self, pattern: str, **options: Any) -> RawSubscriber:
        """Also waits until it is opened. ``options`` are fields of SubscribeOpen."""
        subscriber = RawSubscriber(self.stream("Subscribe", pb.SubscribeReply))
        wanted = pb.SubscribeOpen(pattern=pattern, **{"credit_bytes": CREDIT_BYTES, "start": EARLIEST, **options})
        await subscriber.say(pb.SubscribeRequest(open=wanted))
        subscriber.first = await subscriber.read()
        return subscriber


class RawStream:
    def __init__(self, call: Any) -> None:
        self.raw = call

    async def say(self, message: Any) -> None:
        async with asyncio.timeout(WAIT_S):
            try:
                await self.raw.write(message.SerializeToString())
            except asyncio.InvalidStateError:  # the call ended before: reading says how
                await self.raw.read()
                raise

    async def read(self) -> Any:
        """The next message; ``grpc.aio.EOF`` at the end of a stream that ended well."""
        async with asyncio.timeout(WAIT_S):
            return await self.raw.read()

    async def end(self) -> Any:
        """Say that no more will come, and take the rest."""
        await self.raw.done_writing()
        rest = []
        while (message := await self.read()) is not grpc.aio.EOF:
            rest.append(message)
        return rest


class RawPublisher(RawStream):
    opened: pb.PublishOpened

    async def send(self, request: int, topic: str, batch: Batch, partition: int = 0, copies: int = 0) -> None:
        message = pb.PublishBatch(request=request, topic=topic, partition=partition, batch=batch.data, copies=copies)
        await self.say(pb.PublishRequest(batch=message))

    async def answers(self, count: int) -> dict[int, pb.Receipt | pb.Error]:
        """The next so many receipts and refusals, by request."""
        found: dict[int, pb.Receipt | pb.Error] = {}
        while len(found) < count:
            reply = await self.read()
            assert reply is not grpc.aio.EOF, f"the stream ended after {len(found)} of {count} answers"
            found |= {each.request: each for each in reply.receipts.receipts}
            if reply.HasField("refused"):
                found[reply.refused.request] = reply.refused.error
        return found

    async def publish(self, topic: str, *payloads: bytes, partition: int = 0) -> pb.Receipt:
        await self.send(0, topic, batch_of(*payloads), partition)
        answer = (await self.answers(1))[0]
        assert isinstance(answer, pb.Receipt), answer
        return answer


class RawSubscriber(RawStream):
    first: pb.SubscribeReply

    async def batches(self, events: int) -> list[pb.StreamBatch]:
        """Delivered batches until at least so many events came; credit is given back."""
        found: list[pb.StreamBatch] = []
        have = 0
        while have < events:
            reply = await self.read()
            assert reply is not grpc.aio.EOF, f"the stream ended after {have} of {events} events"
            assert reply.HasField("delivery"), reply
            for each in reply.delivery.batches:
                found.append(each)
                have += len(events_of([each]))
            size = sum(len(each.batch) for each in reply.delivery.batches)
            await self.say(pb.SubscribeRequest(credit=pb.Credit(bytes=size)))
        return found

    async def payloads(self, events: int) -> list[bytes]:
        return [payload for _, payload in events_of(await self.batches(events))]

    async def handled(self, positions: Sequence[pb.StreamPosition], generation: int) -> None:
        await self.say(pb.SubscribeRequest(handled=pb.Handled(positions=positions, generation=generation)))


def events_of(batches: Sequence[pb.StreamBatch]) -> list[tuple[int, bytes]]:
    """Offsets and payloads that are meant."""
    found = []
    for each in batches:
        batch = Batch.read_untrusted(each.batch)
        first = max(each.first_offset, batch.base_offset)
        found += list(enumerate((event.payload for event in batch.events_from(first)), first))
    return found
