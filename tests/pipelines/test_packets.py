"""The pipeline ``packets`` in Spark: captures and topics to two tables, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipelines.packets import (
    EPOCH,
    GROUP_KEYS,
    KEY_ID,
    NODE,
    NOW_S,
    NOW_US,
    PUBLIC_KEYS,
    SEAL_KEY,
    SECRET,
    SIGNER,
    compact_vectors,
    emm_vectors,
    event,
    notification,
    pcap_file,
    rows,
)
from weft.configuration import BadConfig, Source, validated
from weft.errors import UsageError
from weft.pipelines.lake.delta import DeltaLake
from weft.pipelines.packets import PIPELINE, PacketsSettings, start
from weft.pipelines.progress import rows_of
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group, remove_devices
from weft.testing import blocking_mesh
from weft.wire import emm

pytestmark = pytest.mark.xdist_group("spark")

DRIVER_TIMEOUT_S = 480.0  # a bound, for machines that are loaded ten times over
HMAC_KEY = DeviceKey(NODE, KEY_ID, KeyKind.HMAC, Secret(SECRET))


class Lab:
    """A directory with keys, captures, tables and a checkpoint."""

    def __init__(self, home: Path) -> None:
        self.home, self.trust, self.captures = home, home / "trust", home / "captures"
        self.captures.mkdir()
        self.counted = 0  # packets, as people see them in progress
        add_device(self.trust, HMAC_KEY)
        add_group(self.trust, Secret(GROUP_KEYS[0]))

    def values(self, **tables: Any) -> dict[str, Any]:
        """A configuration, as a file would have it."""
        values: dict[str, Any] = {
            "trust": {"file": str(self.trust)},
            "replays": {"buckets": 2},
            "events": {"path": str(self.home / "events")},
            "quarantine": {"path": str(self.home / "quarantine")},
            "run": {"checkpoint": str(self.home / "checkpoint"), "trigger": "available-now"},
        }
        return values | {name: values.get(name, {}) | table for name, table in tables.items()}

    def settings(self, **tables: Any) -> PacketsSettings:
        return validated(PacketsSettings, [Source("test", self.values(**tables))])

    def run(self, spark: SparkSession, **tables: Any) -> None:
        """All there is, then end."""
        (query,) = start(spark, self.settings(**tables))
        query.awaitTermination()
        self.counted += sum(rows_of(each) for each in query.recentProgress)

    def run_captures(self, spark: SparkSession, **trust: str) -> None:
        captures = {"path": str(self.captures), "format": "parquet", "source_column": "source"}
        self.run(spark, captures=captures, trust=trust)

    def capture(self, name: str, datagrams: list[bytes], arrived_us: int = NOW_US) -> None:
        columns = ["datagram", "arrived", "source"]
        table = pa.Table.from_batches([rows(datagrams, arrived_us).select(columns)])
        pq.write_table(table, self.captures / f"{name}.parquet")

    def read(self, table: str) -> list[dict[str, Any]]:
        """What a plain reader of Delta tables finds."""
        found: list[dict[str, Any]] = DeltaTable(self.home / table).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: (row["origin"], row["offset"]))

    def reasons(self) -> list[tuple[int | None, str]]:
        return [(row["message_id"], row["reason"]) for row in self.read("quarantine")]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.req("SPK-03")
def test_vectors_and_rejects_and_replays_across_a_restart(lab: Lab, spark: SparkSession) -> None:
    """One story: what both protocols' vectors say, what is refused and why, and a replay after a restart."""
    for number, key in enumerate((SIGNER.public_key, *PUBLIC_KEYS)):
        add_device(lab.trust, DeviceKey(NODE, bytes((0, 0, 0, number)), KeyKind.ED25519, Secret(key)))
    add_device(lab.trust, DeviceKey(NODE, KEY_ID, KeyKind.ED25519, Secret(SIGNER.public_key)))
    add_group(lab.trust, Secret(GROUP_KEYS[1]))
    compact = list(compact_vectors().values())
    lab.capture("a", [*compact, event(1, 7, {"t": 1.5}), event(2), b"junk", event(3, at_s=NOW_S - 301), event(1)])
    lab.run_captures(spark, epochs="any")  # the vectors have epochs of their own
    good = lab.read("events")
    assert len(good) == len(compact) + 2
    one = next(row for row in good if row["message_id"] == 1)
    assert (one["event_name"], one["int_value"], one["json_value"]) == ("plant.temp", 7, '{"t":1.5}')
    assert (one["node_id"], one["key_id"], one["verdict"]) == (str(NODE), KEY_ID.hex(), "verified")
    assert (one["topic"], one["offset"], one["source"]) == ("capture", len(compact), "192.0.2.7:4321")
    assert one["origin"].endswith("/captures/a.parquet")
    assert str(one["date"]) == "2023-11-14"
    refused = lab.read("quarantine")
    assert [(row["reason"], row["datagram"]) for row in refused] == [
        ("protocol", b"junk"),
        ("stale", event(3, at_s=NOW_S - 301)),
        ("replay", event(1)),
    ]
    assert all(row["detail"] for row in refused)
    assert lab.counted == len(good) + len(refused)

    lab.capture("b", [event(2), compact[0], event(4)], NOW_US + 250 * 10**6)
    lab.run_captures(spark, epochs="any")
    assert len(lab.read("events")) == len(good) + 1
    assert [row["reason"] for row in lab.read("quarantine")][3:] == ["replay", "replay"]


@pytest.mark.req("SPK-03")
def test_a_crash_between_the_tables_leaves_every_packet_in_exactly_one(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies after it committed the first table, and before it comes back a key is taken away."""
    lab.capture("a", [event(1), b"junk", notification(5)])

    class Crash(Exception):
        """The end of a driver."""

    def commit(table: DeltaLake, files: Any, query: str, batch: int) -> bool:
        if table.settings.path.endswith("quarantine"):
            raise Crash
        return really_commit(table, files, query, batch)

    really_commit = DeltaLake.commit
    with monkeypatch.context() as patch, pytest.raises(StreamingQueryException, match="Crash"):
        patch.setattr(DeltaLake, "commit", commit)
        lab.run_captures(spark)
    assert len(lab.read("events")) == 2
    assert lab.reasons() == []
    remove_devices(lab.trust, NODE, None)
    lab.capture("b", [event(6), notification(5)])
    lab.run_captures(spark)
    assert len(lab.read("events")) == 2, "nothing twice"
    compact_id = 5 << 32 | EPOCH << 16 | 2
    assert lab.reasons() == [(None, "protocol"), (6, "unknown-key"), (compact_id, "replay")], "nothing else either"


@pytest.mark.req("SPK-03", "EMM-23")
def test_pcap_files_with_seals_signatures_and_damage(lab: Lab, spark: SparkSession) -> None:
    add_device(lab.trust, DeviceKey(NODE, KEY_ID, KeyKind.ED25519, Secret(SIGNER.public_key)))
    seals = lab.home / "seals.json"
    seals.write_text(f'{{"{NODE.hex}": "{SEAL_KEY.hex()}"}}')
    seals.chmod(0o600)
    nonce = emm.Encryption(emm.Algorithm.CHACHA20_POLY1305, bytes(12))
    signed = emm.Credentials(KEY_ID, signing_key=SIGNER)
    drafts = [emm.draft_event(number, NOW_S, f"event {number}", node_id=NODE) for number in range(3)]
    datagrams = [
        emm.build(drafts[0], signed),
        emm.build(drafts[1], signed, seal=emm.Seal(nonce, SEAL_KEY)),
        emm.build(drafts[2], signed, seal=emm.Seal(nonce, bytes(32))),
        emm_vectors()["split"],  # neither signed nor from a named node
        emm_vectors()["split"],
    ]
    (lab.captures / "a.pcap").write_bytes(pcap_file(*((NOW_US, datagram) for datagram in datagrams)))
    (lab.captures / "b.pcap").write_bytes(b"broken")
    trust = {"seals": str(seals), "unsigned": True}
    lab.run(spark, captures={"path": str(lab.captures), "ports": [5030]}, trust=trust)
    good = lab.read("events")
    assert [row["verdict"] for row in good] == ["verified", "verified", "unsigned"]
    assert [row["event_name"] for row in good[:2]] == ["event 0", "event 1"]
    refused = lab.read("quarantine")
    assert [row["reason"] for row in refused] == ["undecryptable", "replay", "capture"]
    assert "neither pcap nor pcapng" in refused[2]["detail"]


@pytest.mark.req("SPK-03", "EMM-19")
def test_real_packets_are_taken_after_forgeries_of_them(lab: Lab, spark: SparkSession) -> None:
    """The forgeries claim a node and its message ids. One is unsigned, one is signed with a stranger's own key."""
    stranger = emm.Credentials(b"key9", signing_key=emm.SigningKey(b"\x05" * 32), carry_public_key=True)
    claims = [emm.draft_event(number, NOW_S, "forged", node_id=NODE) for number in (1, 2)]
    forged = [emm.build(claims[0]), emm.build(claims[1], stranger)]
    datagrams = [*forged, event(1), event(2), *forged, event(2)]
    times_us = range(NOW_US, NOW_US + len(datagrams))
    (lab.captures / "a.pcap").write_bytes(pcap_file(*zip(times_us, datagrams, strict=True)))
    lab.run(
        spark,
        captures={"path": str(lab.captures)},
        trust={"unsigned": True, "carried_keys": "any"},
        replays={"buckets": 1},
    )
    assert [(row["message_id"], row["verdict"], row["event_name"]) for row in lab.read("events")] == [
        (1, "unsigned", "forged"),
        (2, "unverified-identity", "forged"),
        (1, "verified", "plant.temp"),
        (2, "verified", "plant.temp"),
    ]
    assert lab.reasons() == [(1, "replay"), (2, "replay"), (2, "replay")], "second copies of forgeries and real ones"


@pytest.mark.req("SPK-03", "SPK-06")
def test_topics_of_the_mesh(lab: Lab, spark: SparkSession) -> None:
    with blocking_mesh(nodes=2) as mesh:
        source = {"subscribe": "emm.raw.>"}
        settings = {"nodes": [mesh.address("n0"), mesh.address("n1")], "insecure": True}
        with mesh.client("n0") as one, mesh.client("n1") as other:
            one.publish("emm.raw.a", event(1), headers={"source": "192.0.2.1:1"}, timestamp_us=NOW_US)
            one.publish("emm.raw.a", event(2), timestamp_us=NOW_US)
            other.publish("emm.raw.b", event(2), timestamp_us=NOW_US)
            other.publish("emm.raw.b", notification(3), timestamp_us=NOW_US)
        lab.run(spark, source=source, mesh=settings)
    good, bad = lab.read("events"), lab.read("quarantine")
    assert len(good) == 3
    assert [row["source"] for row in good if row["message_id"] == 1] == ["192.0.2.1:1"]
    assert {row["topic"] for row in good} == {"emm.raw.a", "emm.raw.b"}
    assert [(row["message_id"], row["reason"]) for row in bad] == [(2, "replay")], "heard by two nodes, taken once"
    assert lab.counted == 4
    assert {(row["origin"], row["offset"]) for row in good + bad} == {("n0", 0), ("n0", 1), ("n1", 0), ("n1", 1)}


# --- settings ----------------------------------------------------------------------------------------------------


def test_exactly_one_input(lab: Lab) -> None:
    with pytest.raises(BadConfig, match="give one of them"):
        lab.settings()
    with pytest.raises(BadConfig, match="give one of them"):
        lab.settings(source={"subscribe": "a"}, captures={"path": "x"})


def test_keys_are_looked_for_before_anything_is_started(lab: Lab, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="on this machine"):
        lab.run(spark, captures={"path": "x"}, trust={"file": str(lab.home / "trust.json")})


def test_names_of_columns_are_looked_for_before_anything_is_started(lab: Lab, spark: SparkSession) -> None:
    lab.capture("a", [event(1)])
    with pytest.raises(UsageError, match=r"no column packet of type binary in .*captures \(columns datagram binary"):
        lab.run(spark, captures={"path": str(lab.captures), "format": "parquet", "datagram_column": "packet"})


def test_buckets_are_fixed_with_the_checkpoint(lab: Lab, spark: SparkSession) -> None:
    lab.capture("a", [event(1)])
    captures = {"path": str(lab.captures), "format": "parquet"}
    lab.run(spark, captures=captures)
    with pytest.raises(UsageError, match=r"fixed when a checkpoint is begun \(checkpoint 2, settings 3\)"):
        lab.run(spark, captures=captures, replays={"buckets": 3})


def test_it_is_in_the_catalogue() -> None:
    from weft.pipelines.catalogue import find

    assert find("packets").load() is PIPELINE
