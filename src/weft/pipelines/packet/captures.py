"""Packets from captures: pcap and pcapng files, or Parquet files with a column of datagrams.

The files of a directory are a stream: each is read once, and new ones are read when they appear. A packet is identified
by its file and its number in the file. Only the files' names go through Spark: executors open the files (with Arrow's
file systems), so a capture never has to fit into the JVM. A damaged file gives a row with a ``problem``, after the
packets before the damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, assert_never
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pydantic import Field

from weft.configuration import Section
from weft.errors import UsageError
from weft.limits import CAPTURE_BYTES_MAX
from weft.pipelines.packet.schema import INPUT, TIME
from weft.pipelines.packet.state import PACKET_PARCEL_ROWS
from weft.wire import pcap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from weft.limits import MIB

PACKET_CAPTURE_BYTES_PER_TRIGGER: Final = 256 * MIB  # of capture files, by default: a few million packets
PACKET_CAPTURE_ROWS: Final = 10_000  # in one Arrow batch, as elsewhere
TOPIC: Final = "capture"  # stands in for a topic, which a capture does not have
BINARY_FILE: Final = "path string, modificationTime timestamp, length long, content binary"  # Spark's own
# Reasons for skipping packets that may have been datagrams. A capture is full of other packets, which nobody misses.
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
    """A stream of the files' paths, for ``capture_reader``."""
    if captures.format is CaptureFormat.PARQUET:
        _check_columns(spark, captures)
    files = spark.readStream.format("binaryFile").schema(BINARY_FILE)
    files = files.option("maxBytesPerTrigger", captures.max_bytes_per_trigger)
    return files.load(captures.path).select("path")  # the path only, so that Spark does not open the files


def _check_columns(spark: SparkSession, captures: CapturesSection) -> None:
    """Check the settings' column names against the existing files, so that a mistake shows now and not in the
    quarantine."""
    found = dict(spark.read.parquet(captures.path).dtypes)
    wanted = {captures.datagram_column: {"binary"}, captures.arrived_column: {"timestamp", "timestamp_ntz"}}
    if captures.source_column is not None:
        wanted[captures.source_column] = {"string"}
    for name, kinds in wanted.items():
        if found.get(name) not in kinds:
            raise UsageError(
                f"captures: no column {name} of type {' or '.join(sorted(kinds))} in {captures.path}",
                columns=", ".join(f"{column} {kind}" for column, kind in found.items()),
            )


def capture_reader(captures: CapturesSection) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that turns paths into ``INPUT``, in executors."""
    match captures.format:
        case CaptureFormat.PCAP:
            return PcapReader(frozenset(captures.ports))
        case CaptureFormat.PARQUET:
            return ParquetReader(captures.datagram_column, captures.arrived_column, captures.source_column)
        case _:
            assert_never(captures.format)


@dataclass(frozen=True, slots=True)
class PcapReader:
    """Reads the packets of the capture files at these paths."""

    ports: frozenset[int]

    def __call__(self, paths: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in _each(paths):
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
        except (pcap.BadCapture, pa.ArrowException, OSError) as error:
            yield {"problem": f"the capture cannot be read any further: {error}"}
        missed = {why: count for why, count in skipped.items() if why in MISSED}
        if missed:
            counts = ", ".join(f"{count} {why}" for why, count in missed.items())
            yield {"problem": f"the capture holds packets without a whole datagram: {counts}"}


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads packets from the Parquet files at these paths, from columns with these names."""

    datagram: str
    arrived: str
    source: str | None

    def __call__(self, paths: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in _each(paths):
            yield from self.read(path)

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """The packets of one file, and what is wrong with it."""
        number = 0
        try:
            with _opened(path) as file, pq.ParquetFile(file) as rows:
                columns = [self.datagram, self.arrived, *([] if self.source is None else [self.source])]
                for batch in rows.iter_batches(PACKET_PARCEL_ROWS, columns=columns):
                    yield self._packets(path, number, batch)
                    number += batch.num_rows
        except (pa.ArrowException, OSError, KeyError) as error:
            lost = {"topic": TOPIC, "origin": path, "epoch": 0, "partition": 0, "offset": number}
            problem = f"the capture cannot be read any further: {error}"
            yield pa.RecordBatch.from_pylist([{**lost, "problem": problem}], INPUT)

    def _packets(self, path: str, first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        count = batch.num_rows
        columns = {
            "topic": pa.repeat(TOPIC, count),
            "origin": pa.repeat(path, count),
            "epoch": pa.array(np.zeros(count, np.int64)),
            "partition": pa.array(np.zeros(count, np.int32)),
            "offset": pa.array(np.arange(first, first + count)),
            "arrived": batch.column(self.arrived).cast(TIME, safe=False),
            "source": pa.nulls(count, pa.string()) if self.source is None else batch.column(self.source),
            "datagram": batch.column(self.datagram),
            "problem": pa.nulls(count, pa.string()),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name].cast(INPUT.field(name).type) for name in INPUT.names], schema=INPUT
        )


# --- files -------------------------------------------------------------------------------------------------------


def _each(paths: Iterable[pa.RecordBatch]) -> Iterator[str]:
    for batch in paths:
        yield from batch.column("path").to_pylist()


def _opened(path: str) -> pa.NativeFile:
    """Open a file by its path as Spark gives it: an address without escapes."""
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return fs.LocalFileSystem().open_input_file("/" + rest.lstrip("/"))
    files, name = fs.FileSystem.from_uri(quote(path, safe="/:@?&=%"))
    return files.open_input_file(name)


def _contents(path: str) -> bytes:
    """Read a whole file, but at most one byte more than the limit: the reader then refuses it."""
    with _opened(path) as file:
        data: bytes = file.read(CAPTURE_BYTES_MAX + 1)
        return data
