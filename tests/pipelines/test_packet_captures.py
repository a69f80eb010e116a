"""Packets out of capture files, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.pipelines.packets import NOW_US, VECTORS, event, pcap_file
from weft.limits import PACKET_CAPTURE_ROWS
from weft.pipelines.packet_captures import PcapReader
from weft.pipelines.packet_schema import INPUT

FOREIGN = json.loads((VECTORS / "pcap" / "foreign.json").read_text())["captures"]


def read(path: Path, content: bytes, *ports: int) -> list[dict[str, Any]]:
    path.write_bytes(content)
    batches = list(PcapReader(frozenset(ports))(iter([pa.record_batch({"path": [path.as_uri()]})])))
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
        (tmp_path / "a.pcap").as_uri(),
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
    (batch,) = PcapReader(frozenset()).read((tmp_path / "gone.pcap").as_uri())
    assert "cannot be read" in batch.column("problem")[0].as_py()


def test_long_captures_come_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_file(*((NOW_US, b"x") for _ in range(PACKET_CAPTURE_ROWS + 1))))
    assert [batch.num_rows for batch in PcapReader(frozenset()).read(path.as_uri())] == [PACKET_CAPTURE_ROWS, 1]
