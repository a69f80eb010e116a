"""Packets out of capture files, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.packets import NOW_US, VECTORS, event, pcap_file
from weft.pipelines.packet.captures import PACKET_CAPTURE_ROWS, ParquetReader, PcapReader
from weft.pipelines.packet.schema import INPUT
from weft.pipelines.packet.state import PACKET_PARCEL_ROWS

FOREIGN = json.loads((VECTORS / "pcap" / "foreign.json").read_text())["captures"]


def named(path: Path) -> str:
    """As Spark has it."""
    return f"file:{path}"


def paths(*files: Path) -> list[pa.RecordBatch]:
    return [pa.record_batch({"path": list(map(named, files))})]


def read(path: Path, content: bytes, *ports: int) -> list[dict[str, Any]]:
    path.write_bytes(content)
    batches = list(PcapReader(frozenset(ports))(paths(path)))
    assert all(batch.schema == INPUT for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("capture", FOREIGN, ids=[capture["name"] for capture in FOREIGN])
def test_captures_of_foreign_tools(tmp_path: Path, capture: dict[str, Any]) -> None:
    rows = read(tmp_path / capture["name"], bytes.fromhex(capture["hex"]))
    datagrams = [row for row in rows if row["problem"] is None]
    assert [(row["datagram"].hex(), row["source"].rpartition(":")[2]) for row in datagrams] == [
        (packet["payload"], str(packet["source_port"])) for packet in capture["packets"]
    ]
    problems = [row["problem"] for row in rows if row["problem"] is not None]
    cut = ["the capture holds packets without a whole datagram: 1 cut"]
    assert problems == (cut if "cut" in capture["skipped"] else [])


def test_where_and_when(tmp_path: Path) -> None:
    one, other = read(tmp_path / "a.pcap", pcap_file((NOW_US, b"x"), (NOW_US + 1, b"y")))
    assert one["arrived"].timestamp() == NOW_US / 1e6
    assert (one["topic"], one["origin"], one["epoch"], one["partition"]) == (
        "capture",
        named(tmp_path / "a.pcap"),
        0,
        0,
    )
    assert (one["offset"], other["offset"], one["source"]) == (0, 1, "192.0.2.7:4321")


def test_only_some_ports(tmp_path: Path) -> None:
    content = pcap_file((NOW_US, event(1)))
    assert len(read(tmp_path / "a.pcap", content, 5030)) == 1
    assert read(tmp_path / "a.pcap", content, 53) == []


@pytest.mark.parametrize(
    ("content", "good", "problem"),
    [
        (pcap_file((NOW_US, b"x"), (NOW_US, b"y"))[:-3], 1, "last packet is cut off"),
        (b"no capture", 0, "neither pcap nor pcapng"),
        (b"", 0, "neither pcap nor pcapng"),
    ],
)
def test_damage_is_a_row_behind_what_could_be_read(tmp_path: Path, content: bytes, good: int, problem: str) -> None:
    *packets, last = read(tmp_path / "a.pcap", content)
    assert [row["problem"] for row in packets] == [None] * good
    assert problem in last["problem"]
    assert (last["datagram"], last["offset"]) == (None, good)


def test_a_file_that_is_gone_is_a_row(tmp_path: Path) -> None:
    (batch,) = PcapReader(frozenset()).read(named(tmp_path / "gone.pcap"))
    assert "cannot be read" in batch.column("problem")[0].as_py()


def test_long_captures_come_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(*((NOW_US, b"x") for _ in range(PACKET_CAPTURE_ROWS + 1))))
    assert [batch.num_rows for batch in PcapReader(frozenset()).read(named(path))] == [PACKET_CAPTURE_ROWS, 1]


def test_names_of_files_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "50% of Thu#").mkdir()
    (one,) = read(tmp_path / "50% of Thu#" / "ü ?.pcap", pcap_file((NOW_US, b"x")))
    assert one["datagram"] == b"x"


# --- Parquet -----------------------------------------------------------------------------------------------------

TIMES = {
    "as ours": pa.timestamp("us", "UTC"),
    "another zone": pa.timestamp("us", "Europe/Berlin"),
    "no zone": pa.timestamp("us"),
    "nanoseconds": pa.timestamp("ns", "UTC"),
}


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize("kind", TIMES.values(), ids=TIMES)
def test_columns_of_parquet_by_their_names(tmp_path: Path, kind: pa.DataType) -> None:
    times = pa.array([NOW_US, None], pa.timestamp("us", "UTC")).cast(kind)
    file = tmp_path / "a b.parquet"
    pq.write_table(pa.table({"other": [1, 2], "sent by": ["192.0.2.1:1", None], "raw": [b"x", b""], "at": times}), file)
    (batch,) = ParquetReader("raw", "at", "sent by")(paths(file))
    assert batch.schema == INPUT
    one, other = batch.to_pylist()
    assert one["arrived"].timestamp() == NOW_US / 1e6
    assert (one["datagram"], one["source"], one["offset"]) == (b"x", "192.0.2.1:1", 0)
    assert (one["topic"], one["origin"], one["epoch"], one["partition"]) == ("capture", named(file), 0, 0)
    assert (other["datagram"], other["source"], other["arrived"], other["offset"]) == (b"", None, None, 1)


def test_packets_of_parquet_are_numbered_through(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    count = PACKET_PARCEL_ROWS + 5
    times = pa.array([NOW_US] * count, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"datagram": [b"x"] * count, "arrived": times}), file, row_group_size=1000)
    batches = list(ParquetReader("datagram", "arrived", None)(paths(file)))
    assert [number for batch in batches for number in batch.column("offset").to_pylist()] == list(range(count))
    assert all(batch.num_rows <= PACKET_PARCEL_ROWS and not batch.column("source").drop_null() for batch in batches)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no Parquet", "magic bytes"),
        (b"", "size is 0"),
        (None, "No such file"),
    ],
)
def test_damaged_parquet_is_a_row(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "a.parquet"
    if content is not None:
        file.write_bytes(content)
    (batch,) = ParquetReader("datagram", "arrived", None)(paths(file))
    assert batch.schema == INPUT
    assert "cannot be read any further" in batch.column("problem")[0].as_py()
    assert problem in batch.column("problem")[0].as_py()


def test_a_file_with_other_columns_is_a_row(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"datagram": [b"x"], "arrived": ["yesterday"]}), file)
    for reader in (ParquetReader("datagram", "arrived", None), ParquetReader("datagram", "when", None)):
        (batch,) = reader(paths(file))
        assert "cannot be read any further" in batch.column("problem")[0].as_py()
