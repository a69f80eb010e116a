"""Parcels, and the stateful operator without Spark's JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from tests.pipelines.packets import GROUP_KEYS, KEY_ID, NODE, NOW_S, NOW_US, SECRET, event, means, notification, rows
from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.keys import KeyFiles
from weft.pipelines.packet.parcels import unwrap, wrap
from weft.pipelines.packet.replays import SLOT_US, Window
from weft.pipelines.packet.schema import JUDGED
from weft.pipelines.packet.state import PACKET_PARCEL_ROWS, Packing, ReplayProcessor
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group
from weft.wire import emm

KEY = bytes(range(32))


@pytest.fixture
def packing(tmp_path: Path) -> Packing:
    add_device(tmp_path, DeviceKey(NODE, KEY_ID, KeyKind.HMAC, Secret(SECRET)))
    add_group(tmp_path, Secret(GROUP_KEYS[0]))
    return Packing(iter, KeyFiles(str(tmp_path)), emm.Terms(), KEY, buckets=4)  # packets come as they are


def packed(packing: Packing, *batches: pa.RecordBatch) -> list[tuple[int, bytes]]:
    found = [row for batch in packing(iter(batches)) for row in batch.to_pylist()]
    assert [row["count"] for row in found] == [unwrap(row["packets"]).num_rows for row in found]
    return [(row["bucket"], row["packets"]) for row in found]


def test_every_packet_is_in_one_parcel_as_it_was_judged(packing: Packing) -> None:
    packets = rows([*(event(number) for number in range(50)), notification(1), b"junk", None])
    parcels = packed(packing, packets.slice(0, 20), packets.slice(20))
    found = [row for _, parcel in parcels for row in unwrap(parcel).to_pylist()]
    (expected,) = judge(packets, means())
    assert sorted(found, key=lambda row: row["offset"]) == expected.to_pylist()
    assert len(parcels) == 4


def test_copies_meet_in_one_bucket_wherever_they_come_from(packing: Packing) -> None:
    datagrams = [event(number) for number in range(30)]
    here, there = packed(packing, rows(datagrams)), packed(packing, rows(datagrams[::-1], NOW_US + 5, source="other"))

    def buckets(parcels: list[tuple[int, bytes]]) -> dict[int, int]:
        return {row["message_id"]: bucket for bucket, parcel in parcels for row in unwrap(parcel).to_pylist()}

    assert buckets(here) == buckets(there)
    assert len(set(buckets(here).values())) == 4


def test_parcels_do_not_grow_without_end(packing: Packing) -> None:
    batch = rows([b"?"] * (PACKET_PARCEL_ROWS // 2))
    batches = list(packing(iter([batch, batch, batch.slice(0, 1)])))
    assert [sum(unwrap(parcel).num_rows for parcel in each.column("packets").to_pylist()) for each in batches] == [
        PACKET_PARCEL_ROWS,
        1,
    ]


def test_it_travels_without_keys_of_devices(packing: Packing) -> None:
    assert SECRET not in pickle.dumps(packing)
    assert KEY.hex() not in repr(packing)
    assert repr(KEY) not in repr(packing)


# --- the operator ------------------------------------------------------------------------------------------------


class Bucket:
    """One bucket, batch after batch."""

    def __init__(self) -> None:
        self.tester = TwsTester(ReplayProcessor(Window()))

    def feed(self, *batches: pa.RecordBatch, using: Any = None) -> list[tuple[int | None, str | None, bool]]:
        """(message id, reason, late) of each packet; a parcel for each batch."""
        parcels = [wrap(judged) for batch in batches for judged in judge(batch, using or means())]
        found: Any = self.tester.testInPandas(0, pd.DataFrame({"packets": parcels}))
        table = pa.Table.from_batches(map(unwrap, found["packets"]), JUDGED)
        return [(row["message_id"], row["reason"], row["late"]) for row in table.to_pylist()]

    def slots(self) -> Iterable[int]:
        return sorted(slot for (slot,) in self.tester.peekMapState("slots", 0))


@pytest.mark.req("SPK-03", "EMM-19")
def test_replays_are_flagged_across_nodes_parcels_and_batches() -> None:
    bucket = Bucket()
    here, there = rows([event(1), event(2)]), rows([event(2), event(3)], NOW_US + 5, source="198.51.100.1:9")
    assert bucket.feed(here, there) == [(1, None, False), (2, None, False), (2, "replay", False), (3, None, False)]
    assert bucket.feed(rows([event(3), event(4)], NOW_US + 9)) == [(3, "replay", False), (4, None, False)]


def test_what_was_refused_does_not_keep_the_real_one_out() -> None:
    bucket = Bucket()
    forged = event(1)[:-1] + bytes((event(1)[-1] ^ 1,))
    assert bucket.feed(rows([forged, event(1)])) == [(1, "bad-hmac", False), (1, None, False)]
    assert bucket.feed(rows([forged]), rows([event(1)])) == [(1, "bad-hmac", False), (1, "replay", False)]


def test_a_second_copy_of_what_nobody_could_open_is_a_replay() -> None:
    seal = emm.Seal(emm.Encryption(emm.Algorithm.AES_256_GCM, bytes(12)), b"?" * 32)
    draft = emm.draft_event(1, NOW_S, "secret", node_id=NODE)
    sealed = emm.build(draft, emm.Credentials(KEY_ID, hmac_key=SECRET), seal=seal)
    assert Bucket().feed(rows([sealed, sealed])) == [(1, "undecryptable", False), (1, "replay", False)]


def test_emm_c_is_known_by_its_signature_too() -> None:
    found = Bucket().feed(rows([notification(1, b"a"), notification(1, b"b"), notification(1, b"a")]))
    assert [reason for _, reason, _ in found] == [None, None, "replay"]


def test_late_packets_are_marked_and_kept() -> None:
    bucket = Bucket()
    bucket.feed(rows([event(1, at_s=NOW_S + 3600)], NOW_US + 3600 * 10**6))
    assert bucket.feed(rows([event(2)])) == [(2, None, True)]


def test_state_moves_with_time() -> None:
    bucket = Bucket()
    for minute in range(0, 30, 1):
        bucket.feed(rows([event(minute, at_s=NOW_S + 60 * minute)], NOW_US + 60 * 10**6 * minute))
    slots = list(bucket.slots())
    assert (slots[-1] - slots[0]) * SLOT_US <= (300 + 300 + 60) * 10**6
    assert len(slots) == 11


def test_a_batch_of_nothing_but_rejects() -> None:
    bucket = Bucket()
    assert bucket.feed(rows([b"junk", None])) == [(None, "protocol", False), (None, "truncated", False)]
    assert list(bucket.slots()) == []
