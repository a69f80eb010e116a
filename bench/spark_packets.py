"""The pipeline ``packets``: ``python -m bench.spark_packets [--packets N] [--rounds N] [--json | --markdown]``.

The same packets (an event's name, an integer, a float, a node id, half of them with a key id and HMAC) go through what
the pipeline is made of, in one run and in turn: the codec alone on one core, judging alone on one core, judging in
Spark with and without HMACs up to where state begins, then with replay detection, then to the two tables.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from bench.figures import Figure, Format, add_formats, report
from bench.spark_common import Run, bench_session, console, in_turn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.pipelines.packet.captures import BINARY_FILE, ParquetReader
from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.judging import Means
from weft.pipelines.packet.keys import KeyFiles, keys_here
from weft.pipelines.packet.marks import Hasher
from weft.pipelines.packet.replays import Window
from weft.pipelines.packet.schema import INPUT
from weft.pipelines.packet.state import PACKED, Packing, with_replays_marked
from weft.pipelines.packets import PacketsSettings, start
from weft.pipelines.progress import rows_of
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device
from weft.wire import emm
from weft.wire.emm.columnar import decode_column

NODE, KEY_ID, SECRET = UUID("00112233-4455-6677-8899-aabbccddeeff"), b"key1", b"s" * 32
NOW_S = 1_700_000_000
PACKETS, FILES, ROUNDS = 4_000_000, 8, 5
PACKETS_PER_S = 50_000  # as they arrive; it decides how much state there is
BUCKETS = 8
HASH_KEY = bytes(32)
GOAL_DECODE, GOAL_REPLAYS = 1_000_000, 120_000
Bytes = npt.NDArray[np.uint8]


def packets(first: int, count: int, *, signed: bool) -> pa.RecordBatch:
    """Events of one node, each with its own message id, arriving at PACKETS_PER_S."""
    draft = emm.draft_event(0, NOW_S, "plant.line1.temp", 42, 3.5, node_id=NODE)
    model = emm.build(draft, emm.Credentials(KEY_ID, hmac_key=SECRET) if signed else None)
    datagrams: Bytes = np.tile(np.frombuffer(model, np.uint8), (count, 1))
    ids = np.arange(first, first + count)
    arrived_us = NOW_S * 1_000_000 + ids * 1_000_000 // PACKETS_PER_S
    datagrams[:, 1:5] = ids.astype(">u4").view(np.uint8).reshape(count, 4)
    datagrams[:, 7:15] = (arrived_us // 1_000_000).astype(">u8").view(np.uint8).reshape(count, 8)
    if signed:
        _sign(datagrams)
    offsets = pa.py_buffer(np.arange(0, (count + 1) * len(model), len(model), dtype=np.int32)[: count + 1])
    columns = {
        "topic": pa.repeat("emm.raw", count),
        "origin": pa.repeat("node-a", count),
        "epoch": pa.array(np.ones(count, np.int64)),
        "partition": pa.array(np.zeros(count, np.int32)),
        "offset": pa.array(ids),
        "arrived": pa.array(arrived_us, INPUT.field("arrived").type),
        "source": pa.repeat("192.0.2.7:4321", count),
        "datagram": pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(datagrams)]),
        "problem": pa.nulls(count, pa.string()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in INPUT.names], schema=INPUT)


def _sign(datagrams: Bytes) -> None:
    """The HMAC is the last field: 32 bytes behind its type and length."""
    block = SECRET.ljust(64, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    for row in datagrams:
        one, other = inner.copy(), outer.copy()
        one.update(row[:-34].tobytes())
        other.update(one.digest())
        row[-32:] = np.frombuffer(other.digest(), np.uint8)


def write(place: Path, count: int, *, signed: bool) -> Path:
    place.mkdir()
    each = count // FILES
    for number in range(FILES):
        table = pa.Table.from_batches([packets(number * each, each, signed=signed)])
        pq.write_table(table, place / f"{number}.parquet", compression="lz4")
    return place


# --- on one core -------------------------------------------------------------------------------------------------


def on_one_core(keys: KeyFiles, rounds: int) -> list[Figure]:
    means = Means(keys_here(keys), emm.Terms(unsigned_allowed=True), Hasher(HASH_KEY))
    plain, signed = (packets(0, 65_536, signed=each) for each in (False, True))
    works: dict[str, Callable[[], object]] = {
        "one core: codec alone": lambda: decode_column(plain.column("datagram")),
        "one core: judged, no HMAC": lambda: list(judge(plain, means)),
        "one core: judged, HMAC verified": lambda: list(judge(signed, means)),
    }
    figures = []
    for name, work in works.items():
        work()
        rates = []
        for _ in range(rounds):
            begin = time.perf_counter()
            work()
            rates.append(plain.num_rows / (time.perf_counter() - begin))
        figures.append(_figure(name, rates, limit=True))
    return figures


def _figure(name: str, rates: list[float], *, goal: float | None = None, limit: bool = False) -> Figure:
    note = f"best {max(rates):,.0f}"
    return Figure(name, statistics.median(rates), "packets/s", goal=goal, limit=limit, note=note)


# --- in Spark ----------------------------------------------------------------------------------------------------


def packing_with(keys: KeyFiles) -> Packing:
    """As the pipeline does it for captures in Parquet."""
    intake = ParquetReader("datagram", "arrived", "source")
    return Packing(intake, keys, emm.Terms(unsigned_allowed=True), HASH_KEY, BUCKETS)


def decoding(spark: SparkSession, keys: KeyFiles, plain: Path, signed: Path, count: int, rounds: int) -> list[Figure]:
    packing = packing_with(keys)

    def decoded(place: Path) -> Callable[[], DataFrame]:
        names = spark.read.format("binaryFile").schema(BINARY_FILE).load(str(place)).select("path")
        return lambda: names.mapInArrow(packing, PACKED)

    runs = [
        Run("Spark: packets from Parquet", lambda: spark.read.parquet(str(plain)), count),
        Run("Spark: decoded", decoded(plain), count, GOAL_DECODE),
        Run("Spark: decoded, HMAC verified", decoded(signed), count),
    ]
    in_turn(runs, rounds)
    return [_figure(run.name, run.rates, goal=run.goal, limit=number == 0) for number, run in enumerate(runs)]


def replays(spark: SparkSession, keys: KeyFiles, place: Path, checkpoint: Path) -> list[float]:
    """Micro-batches of two files each, into a sink that throws parcels away."""
    files = spark.readStream.format("binaryFile").schema(BINARY_FILE).option("maxFilesPerTrigger", 2)
    marked = with_replays_marked(files.load(str(place)).select("path"), packing_with(keys), Window())
    writer = marked.writeStream.format("noop").outputMode("append").option("checkpointLocation", str(checkpoint))
    return _rates(writer.trigger(availableNow=True).start())


def pipeline(spark: SparkSession, trust: Path, captures: Path, place: Path) -> list[float]:
    """As ``weft pipeline run packets`` has it, from Parquet captures to both tables."""
    size = max(file.stat().st_size for file in captures.iterdir())
    (query,) = start(
        spark,
        PacketsSettings.model_validate(
            {
                "captures": {"path": str(captures), "format": "parquet", "max_bytes_per_trigger": 2 * size},
                "trust": {"file": str(trust), "unsigned": True},
                "replays": {"buckets": BUCKETS},
                "events": {"path": str(place / "events")},
                "quarantine": {"path": str(place / "quarantine")},
                "run": {"checkpoint": str(place / "checkpoint"), "trigger": "available-now"},
            }
        ),
    )
    return _rates(query)


def _rates(query: StreamingQuery) -> list[float]:
    """Packets per second of every micro-batch but the first, which warms up."""
    query.awaitTermination()
    batches = [(rows_of(each), each["durationMs"]["triggerExecution"]) for each in query.recentProgress]
    return [packets * 1000 / took_ms for packets, took_ms in batches if packets][1:]


def measure(count: int, rounds: int, place: Path) -> list[Figure]:
    trust = place / "trust"
    add_device(trust, DeviceKey(NODE, KEY_ID, KeyKind.HMAC, Secret(SECRET)))
    keys = KeyFiles(str(trust))
    console.print("making packets", style="dim")
    plain, signed = write(place / "plain", count, signed=False), write(place / "signed", count, signed=True)
    figures = on_one_core(keys, rounds)
    spark = bench_session("weft bench packets")
    figures += decoding(spark, keys, plain, signed, count, rounds)
    runs: dict[str, Callable[[Path], list[float]]] = {
        "Spark: with replay detection": lambda at: replays(spark, keys, plain, at),
        "Spark: with replay detection, HMAC verified": lambda at: replays(spark, keys, signed, at),
        "Spark: all of it, HMAC verified, to two tables": lambda at: pipeline(spark, trust, signed, at),
    }
    for number, (name, run) in enumerate(runs.items()):
        console.print(name, style="dim")
        run(place / f"warm-{number}")
        rates = run(place / f"counts-{number}")
        figures.append(_figure(name, rates, goal=GOAL_REPLAYS))
    spark.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--dir", type=Path, default=None, help="where files go")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = measure(arguments.packets, arguments.rounds, Path(place))
    report(figures, f"Spark, pipeline packets: {arguments.packets:,} packets, local[2]", output)


if __name__ == "__main__":
    main()
