"""Some columns of stored batches, for a fetch that does not want all."""

from __future__ import annotations

import pyarrow as pa

from weft.model import Batch
from weft.wire.mesh import mesh_pb2 as pb


def projected(stored: list[bytes], columns: list[str], first: int, end: int) -> bytes:
    """Of each batch the rows within the range, only these columns, as an Arrow IPC stream of its own."""
    reply = pb.FetchedBatches()
    for data in stored:
        batch = Batch.read_stored(data)
        rows = batch.rows(first, end).select(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        reply.batches.append(sink.getvalue().to_pybytes())
        reply.first_offsets.append(max(batch.base_offset, first))
    message: bytes = pb.FetchReply(fetched=reply).SerializeToString()
    return message
