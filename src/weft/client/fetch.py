"""Reading ranges of streams as they are stored, from any node that has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.client.errors import BadNode, error_of, error_of_call, is_retryable, parsed_untrusted
from weft.client.nodes import Nodes
from weft.client.received import ReceivedBatch
from weft.client.refs import stream_ref
from weft.errors import UsageError, WeftError
from weft.limits import FETCH_RANGES_MAX, OFFSET_MAX, READ_BYTES_MAX
from weft.model import COLUMNS, BadBatch, Batch, Epoch, Stream
from weft.model.stream import check_place
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.deliveries import Fetched, read_fetched_untrusted
from weft.wire.rpc import RpcError

if TYPE_CHECKING:
    import pyarrow as pa

FETCH: Final = "/weft.mesh.v1.Mesh/Fetch"
FETCH_TRIES_MAX: Final = 10  # tries without any progress, for about five seconds; then the caller gets the error


class FetchRange(NamedTuple):
    """Offsets of one stream, up to but not including ``end_offset``. None: up to its current end."""

    stream: Stream
    epoch: int
    first_offset: int
    end_offset: int | None = None


class Fetch:
    """Reads one range after the other. When a node is lost, another one continues."""

    def __init__(self, nodes: Nodes, ranges: Sequence[FetchRange], columns: Sequence[str]) -> None:
        for wanted in ranges:
            check_place(Epoch(wanted.epoch), wanted.first_offset)
            if wanted.end_offset is not None and wanted.end_offset < wanted.first_offset:
                raise UsageError("the range ends before it begins", first=wanted.first_offset, end=wanted.end_offset)
        if unknown := [name for name in columns if name not in COLUMNS]:
            raise UsageError("no such column", column=unknown[0], known=", ".join(COLUMNS))
        self._nodes = nodes
        self._ranges = ranges
        self._columns = list(columns)
        self._at = -1  # the number of the range that is being read
        self._go_to(0)

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        async for found in self.replies():
            for batch in found:
                yield batch

    async def replies(self) -> AsyncIterator[list[ReceivedBatch]]:
        """Do the same, with all batches of a message at a time. If a node reports an error in one of several ranges,
        the error has the range's number as the fact ``range``; all ranges before it are complete."""
        backoff = self._nodes.backoff()
        attempts = self._nodes.attempts("fetch", backoff, self._nodes.last_good)
        reason: WeftError | None = None
        tries = 0
        while not self._is_over:
            address = await attempts.next(reason)
            begun_at = (self._at, self._next)
            try:
                while not self._is_over:
                    async for found in self.from_node(address):
                        yield found
            except WeftError as error:
                tries = 1 if (self._at, self._next) > begun_at else tries + 1
                if not is_retryable(error) or tries > FETCH_TRIES_MAX:
                    raise
                reason = error

    @property
    def _is_over(self) -> bool:
        return self._at >= len(self._ranges)

    def _go_to(self, number: int) -> None:
        """Go to the beginning of this range, unless it is being read already, and skip empty ranges."""
        while number > self._at:
            self._at = number
            if self._is_over:
                return
            _, _, self._next, end = self._ranges[number]
            self._end = OFFSET_MAX if end is None else end
            if self._next >= self._end:
                number += 1

    async def from_node(self, address: str) -> AsyncIterator[list[ReceivedBatch]]:
        """Ask one node for the ranges that are left, as many as it accepts at once. When this ends without an error, at
        least one more range is complete."""
        begun = self._at
        call = await self._nodes.open(address, FETCH)
        try:
            call.write_nowait(self._request().SerializeToString())
            call.end()
            while (data := await call.read()) is not None:
                fetched = read_fetched_untrusted(data) or self._parsed_untrusted(data, begun, address)
                if found := self._read_untrusted(fetched, begun, address):
                    yield found
                self._go_to(begun + fetched.ranges_done)
                if self._is_over:
                    return  # there is no need to wait until the node ends its stream
            self._go_to(begun + 1)  # an older node, which takes one range per call, has served the first one
        except RpcError as error:
            raise error_of_call(error, node=address) from None
        finally:
            call.cancel()

    def _request(self) -> pb.FetchRequest:
        stream, epoch, _, _ = self._ranges[self._at]
        return pb.FetchRequest(
            stream=stream_ref(stream, Epoch(epoch)),
            first_offset=self._next,
            end_offset=self._end,
            bytes_max=READ_BYTES_MAX,
            columns=self._columns,
            more=[
                pb.FetchRange(
                    stream=stream_ref(each.stream, Epoch(each.epoch)),
                    first_offset=each.first_offset,
                    end_offset=OFFSET_MAX if each.end_offset is None else each.end_offset,
                )
                for each in self._ranges[self._at + 1 : self._at + FETCH_RANGES_MAX]
            ],
        )

    def _parsed_untrusted(self, data: bytes, begun: int, address: str) -> pb.FetchedBatches:
        """Parse a reply. Raise the node's refusal, or BadNode."""
        reply = parsed_untrusted(pb.FetchReply, data, address)
        if reply.WhichOneof("msg") == "error":
            raise self._refused(reply, begun, address)
        return reply.fetched

    def _refused(self, reply: pb.FetchReply, begun: int, address: str) -> WeftError:
        """The error, with the number of the range that it is about."""
        number = begun + reply.range
        if not self._at <= number < len(self._ranges):
            return BadNode("the node told of a range that it was not asked for", node=address, range=reply.range)
        self._go_to(number)
        where = {"node": address, "stream": self._ranges[number].stream}
        return error_of(reply.error, **where, **({"range": number} if len(self._ranges) > 1 else {}))

    def _read_untrusted(self, fetched: pb.FetchedBatches | Fetched, begun: int, address: str) -> list[ReceivedBatch]:
        """Take what is new and wanted out of a reply; raise only BadNode."""
        numbers = fetched.ranges or [0] * len(fetched.batches)
        if self._columns and len(fetched.first_offsets) != len(fetched.batches):
            raise BadNode("the node sent columns without their offsets", node=address, stream=self._stream)
        if len(numbers) != len(fetched.batches) or begun + fetched.ranges_done > len(self._ranges):
            raise BadNode("the node sent batches of ranges that nobody asked for", node=address, stream=self._stream)
        import pyarrow as pa

        found = []
        for index, (number, data) in enumerate(zip(numbers, fetched.batches, strict=True)):
            if begun + number >= len(self._ranges):
                raise BadNode("the node sent a range that nobody asked for", node=address, range=number)
            if begun + number < self._at:
                continue  # all of that has come already
            self._go_to(begun + number)
            try:
                if self._columns:
                    first, rows = fetched.first_offsets[index], _read_columns_untrusted(data, self._columns)
                else:
                    batch = Batch.read_untrusted(data)
                    first, rows = batch.base_offset, batch.record_batch
            except (BadBatch, pa.ArrowException, OSError) as error:
                where = {"node": address, "stream": self._stream, "offset": self._next}
                raise BadNode(f"the node sent a bad batch: {error}", **where) from None
            begin, end = max(first, self._next), min(first + rows.num_rows, self._end)
            if begin < end:
                epoch = Epoch(self._ranges[self._at].epoch)
                found.append(ReceivedBatch(self._stream, epoch, begin, rows.slice(begin - first, end - begin)))
                self._next = end
                if end >= self._end:
                    self._go_to(self._at + 1)
        return found

    @property
    def _stream(self) -> Stream:
        return self._ranges[min(self._at, len(self._ranges) - 1)].stream


def _read_columns_untrusted(data: bytes, columns: Sequence[str]) -> pa.RecordBatch:
    """Read an Arrow IPC stream of one batch with these columns, with the types that they have in a batch. Raise
    ArrowException or OSError."""
    import pyarrow as pa

    from weft.model.batch_schema import SCHEMA

    with pa.ipc.open_stream(data) as reader:
        if reader.schema != pa.schema([SCHEMA.field(name) for name in columns]):
            raise pa.ArrowInvalid(f"columns {reader.schema.names}, not {list(columns)}")
        rows = reader.read_next_batch()
    rows.validate(full=True)
    return rows
