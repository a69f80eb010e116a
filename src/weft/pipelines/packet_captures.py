"""Packets out of captures: pcap and pcapng files, or Parquet files with a column of datagrams.

Files of a directory are a stream: each is read once, new ones when they appear. Identity of a packet is the file and
the packet's number in it. pcap files are opened by executors themselves (with Arrow's file systems), so a capture never
has to fit into the JVM; damage in one becomes a row with a ``problem``, after the packets in front of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa
import pyarrow.fs
from pydantic import Field

from weft.configuration import Section
from weft.limits import CAPTURE_BYTES_MAX, PACKET_CAPTURE_BYTES_PER_TRIGGER, PACKET_CAPTURE_ROWS
from weft.pipelines.packet_schema import INPUT
from weft.wire import pcap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "capture"  # what stands for one: a capture comes from none
BINARY_FILE: Final = "path string, modificationTime timestamp, length long, content binary"  # Spark's own
# Packets that may well have been datagrams; a capture is full of others, and nobody misses those.
MISSED: Final = frozenset({pcap.Skip.LINK_TYPE, pcap.Skip.FRAGMENT, pcap.Skip.CUT, pcap.Skip.MALFORMED})


class CaptureFormat(StrEnum):
    PCAP = "pcap"
    PARQUET = "parquet"


class CapturesSection(Section):
    """Captures to read, instead of topics."""

    path: str = Field(min_length=1, description="A directory, or files by a glob; executors have to see them.")
    format: CaptureFormat = Field(default=CaptureFormat.PCAP, description="`pcap` (pcapng as well) or `parquet`.")
    ports: tuple[int, ...] = Field(
        default=(), description="pcap: datagrams to these ports only; unset: all UDP there is, other protocols too."
    )
    datagram_column: str = Field(default="datagram", description="Parquet: the binary column.")
    arrived_column: str = Field(default="arrived", description="Parquet: when a datagram was received, a timestamp.")
    source_column: str | None = Field(default=None, description="Parquet: from which address, a string.")
    max_bytes_per_trigger: int = Field(default=PACKET_CAPTURE_BYTES_PER_TRIGGER, ge=1)


def read_captures(spark: SparkSession, captures: CapturesSection) -> DataFrame:
    """A stream of ``INPUT``."""
    match captures.format:
        case CaptureFormat.PCAP:
            return _read_pcap(spark, captures)
        case CaptureFormat.PARQUET:
            return _read_parquet(spark, captures)
        case _:
            assert_never(captures.format)


def _read_parquet(spark: SparkSession, captures: CapturesSection) -> DataFrame:
    from pyspark.sql import functions as f

    schema = spark.read.parquet(captures.path).schema  # a stream of files has to be told
    files = spark.readStream.schema(schema).option("maxBytesPerTrigger", captures.max_bytes_per_trigger)
    source = f.lit(None) if captures.source_column is None else f.col(captures.source_column)
    return files.parquet(captures.path).select(
        f.lit(TOPIC).alias("topic"),
        f.col("_metadata.file_path").alias("origin"),
        f.lit(0).cast("long").alias("epoch"),
        f.lit(0).alias("partition"),
        f.col("_metadata.row_index").alias("offset"),
        f.col(captures.arrived_column).cast("timestamp").alias("arrived"),
        source.cast("string").alias("source"),
        f.col(captures.datagram_column).alias("datagram"),
        f.lit(None).cast("string").alias("problem"),
    )


def _read_pcap(spark: SparkSession, captures: CapturesSection) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    files = spark.readStream.format("binaryFile").schema(BINARY_FILE)
    files = files.option("maxBytesPerTrigger", captures.max_bytes_per_trigger)
    names = files.load(captures.path).select("path")  # and nothing else: Spark does not open the files
    return names.mapInArrow(PcapReader(frozenset(captures.ports)), from_arrow_schema(INPUT))


@dataclass(frozen=True, slots=True)
class PcapReader:
    """For ``mapInArrow``: paths to packets."""

    ports: frozenset[int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from self.read(path)

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """The packets of one file, and what is wrong with it."""
        rows: list[dict[str, Any]] = []
        for number, row in enumerate(self._rows(path)):
            rows.append({"topic": TOPIC, "origin": path, "epoch": 0, "partition": 0, "offset": number, **row})
            if len(rows) == PACKET_CAPTURE_ROWS:
                yield pa.RecordBatch.from_pylist(rows, INPUT)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, INPUT)

    def _rows(self, path: str) -> Iterator[dict[str, Any]]:
        skipped: Counter[pcap.Skip] = Counter()
        try:
            for packet in pcap.read_untrusted(_contents(path), skipped):
                if not self.ports or packet.target_port in self.ports:
                    source = f"[{packet.source}]" if ":" in packet.source else packet.source
                    yield {
                        "arrived": packet.timestamp_us,
                        "source": f"{source}:{packet.source_port}",
                        "datagram": packet.payload,
                    }
        except (pcap.BadCapture, OSError) as error:
            yield {"problem": f"the capture cannot be read any further: {error}"}
        missed = {why: count for why, count in skipped.items() if why in MISSED}
        if missed:
            counts = ", ".join(f"{count} {why}" for why, count in missed.items())
            yield {"problem": f"the capture holds packets without a whole datagram: {counts}"}


def _contents(path: str) -> bytes:
    """A whole file, up to the limit and a byte more: the reader refuses it then."""
    files, name = pyarrow.fs.FileSystem.from_uri(path)
    with files.open_input_stream(name) as stream:
        data: bytes = stream.read(CAPTURE_BYTES_MAX + 1)
        return data
