"""A range of one stream, as it is stored, from whichever node has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from weft.client.errors import BadNode, error_of, error_of_call, is_retryable, parsed_untrusted
from weft.client.nodes import Nodes
from weft.client.received import ReceivedBatch
from weft.client.refs import stream_ref
from weft.errors import UsageError, WeftError
from weft.limits import OFFSET_MAX, READ_BYTES_MAX
from weft.model import COLUMNS, BadBatch, Batch, Epoch, Stream
from weft.model.stream import check_place
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.rpc import RpcError

if TYPE_CHECKING:
    import pyarrow as pa

FETCH: Final = "/weft.mesh.v1.Mesh/Fetch"
FETCH_TRIES_MAX: Final = 10  # without any progress: five seconds or so, then the caller decides


class Fetch:
    """Reads on where it was when a node is lost."""

    def __init__(
        self, nodes: Nodes, stream: Stream, epoch: Epoch, first: int, end: int | None, columns: Sequence[str]
    ) -> None:
        check_place(epoch, first)
        if end is not None and end < first:
            raise UsageError("the range ends before it begins", first=first, end=end)
        if unknown := [name for name in columns if name not in COLUMNS]:
            raise UsageError("no such column", column=unknown[0], known=", ".join(COLUMNS))
        self._nodes = nodes
        self._stream = stream
        self._epoch = epoch
        self._next = first
        self._end = OFFSET_MAX if end is None else end
        self._columns = list(columns)

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        async for found in self.replies():
            for batch in found:
                yield batch

    async def replies(self) -> AsyncIterator[list[ReceivedBatch]]:
        """The same, as many batches at a time as came in one message."""
        backoff = self._nodes.backoff()
        attempts = self._nodes.attempts("fetch", backoff, self._nodes.last_good)
        reason: WeftError | None = None
        tries = 0
        while self._next < self._end:
            address = await attempts.next(reason)
            begun_at = self._next
            try:
                async for found in self._from_node(address):
                    yield found
                return
            except WeftError as error:
                tries = 1 if self._next > begun_at else tries + 1
                if not is_retryable(error) or tries > FETCH_TRIES_MAX:
                    raise
                reason = error

    async def _from_node(self, address: str) -> AsyncIterator[list[ReceivedBatch]]:
        request = pb.FetchRequest(
            stream=stream_ref(self._stream, self._epoch),
            first_offset=self._next,
            end_offset=self._end,
            bytes_max=READ_BYTES_MAX,
            columns=self._columns,
        )
        call = await self._nodes.open(address, FETCH)
        try:
            call.write_nowait(request.SerializeToString())
            call.end()
            while (data := await call.read()) is not None:
                reply = parsed_untrusted(pb.FetchReply, data, address)
                if reply.WhichOneof("msg") == "error":
                    raise error_of(reply.error, node=address, stream=self._stream)
                if found := self._read_untrusted(reply.fetched, address):
                    yield found
                if self._next >= self._end:
                    return  # how the node ends its stream is not waited for
        except RpcError as error:
            raise error_of_call(error, node=address) from None
        finally:
            call.cancel()

    def _read_untrusted(self, fetched: pb.FetchedBatches, address: str) -> list[ReceivedBatch]:
        """What is new and wanted of a reply; raise only BadNode."""
        if self._columns and len(fetched.first_offsets) != len(fetched.batches):
            raise BadNode("the node sent columns without their offsets", node=address, stream=self._stream)
        import pyarrow as pa

        found = []
        for index, data in enumerate(fetched.batches):
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
                found.append(ReceivedBatch(self._stream, self._epoch, begin, rows.slice(begin - first, end - begin)))
                self._next = end
        return found


def _read_columns_untrusted(data: bytes, columns: Sequence[str]) -> pa.RecordBatch:
    """An Arrow IPC stream of one batch with these columns, their types as in a batch; raise ArrowException, OSError."""
    import pyarrow as pa

    from weft.model.batch_schema import SCHEMA

    with pa.ipc.open_stream(data) as reader:
        if reader.schema != pa.schema([SCHEMA.field(name) for name in columns]):
            raise pa.ArrowInvalid(f"columns {reader.schema.names}, not {list(columns)}")
        rows = reader.read_next_batch()
    rows.validate(full=True)
    return rows
