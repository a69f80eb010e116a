"""Columns of packets get the verdict that each packet gets alone, and that is the judge's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.packets import (
    EPOCH,
    HASHER,
    NODE,
    NOW_S,
    NOW_US,
    SEAL_KEY,
    SECRET,
    SIGNER,
    compact_vectors,
    emm_vectors,
    event,
    means,
    notification,
    ring,
    rows,
    trust,
)
from tests.wire.emm import strategies as emm_packets
from tests.wire.emm.test_parse import ACCEPTED, REJECTIONS
from tests.wire.emm_compact import packets as compact_packets
from weft.pipelines.packet.columns import VERDICT
from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.judging import TIME_S_MAX, Means, judge_one
from weft.pipelines.packet.keys import Keys
from weft.pipelines.packet.marks import words_of
from weft.pipelines.packet.schema import JUDGED, Verdict
from weft.wire import emm
from weft.wire.columns import BLOCK_ROWS
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.emm_compact.judge import Epochs
from weft.wire.reject import BadPacket, Reject


def judged(packets: pa.RecordBatch, using: Means) -> list[dict[str, Any]]:
    batches = list(judge(packets, using))
    table = pa.Table.from_batches(batches, JUDGED)
    table.validate(full=True)
    for name in ("topic", "offset", "arrived", "source", "datagram"):
        assert table.column(name).to_pylist() == packets.column(name).to_pylist()
    found: list[dict[str, Any]] = table.select(VERDICT.names).to_pylist()
    return found


def alone(datagram: bytes | None, arrived_us: int | None, source: str, using: Means) -> dict[str, Any]:
    """What the definition says of one packet, as a row."""
    row = judge_one(datagram or b"", arrived_us, source.encode(), using)
    if "mark" in row:
        high, low = HASHER.hash(words_of([row.pop("mark")]), np.array([row.pop("tag")], np.uint64))
        row |= {"hash_high": int(high[0]), "hash_low": int(low[0])}
    found: dict[str, Any] = pa.RecordBatch.from_pylist([{"late": False, **row}], VERDICT).to_pylist()[0]
    return found


def received(datagram: bytes, arrived_us: int, source: str, using: Means) -> str:
    """What a judge that has seen nothing yet says: a verdict, or a reason."""
    try:
        if protocol_of_untrusted(datagram) is DatagramProtocol.EMM_COMPACT:
            proof = using.compact.receive_datagram(datagram, arrived_us / 1e6).proof
            return {"group": "group", "sender": "verified"}[proof.value]
        return str(using.emm.receive_datagram(datagram, source.encode(), arrived_us / 1e6).verdict)
    except BadPacket as refusal:
        return str(refusal.reason)


def comparable(found: list[dict[str, Any]]) -> list[str]:
    """NaN is not equal to itself; its text is."""
    return [repr(sorted(row.items())) for row in found]


def check(datagrams: list[bytes | None], times_us: list[int], using: Means) -> None:
    found = judged(rows(datagrams, times_us, source="s"), using)
    assert comparable(found) == comparable(
        [alone(data, time_us, "s", using) for data, time_us in zip(datagrams, times_us, strict=True)]
    )
    for row, data, time_us in zip(found, datagrams, times_us, strict=True):
        assert (row["reason"] or row["verdict"]) == received(data or b"", time_us, "s", using)
        assert (row["reason"] is None) == (row["detail"] is None)


@pytest.mark.req("SPK-03")
def test_vectors_of_both_protocols_are_good() -> None:
    datagrams = [*emm_vectors().values(), *compact_vectors().values()]
    check(list(datagrams), [NOW_US] * len(datagrams), means(unsigned_allowed=True))
    reasons = {row["reason"] for row in judged(rows(datagrams), means(unsigned_allowed=True))}
    assert reasons == {None}


@pytest.mark.req("SPK-03", "EMM-14", "EMM-15")
@pytest.mark.parametrize("unsigned_allowed", [False, True])
def test_every_known_case_and_refusal(unsigned_allowed: bool) -> None:
    datagrams = [
        *(data for _, _, data, _ in REJECTIONS),
        *ACCEPTED.values(),
        *emm_vectors().values(),
        None,
        b"",
        b"\x7f",
    ]
    check(datagrams, [NOW_US] * len(datagrams), means(unsigned_allowed=unsigned_allowed))


def _trusting(datagrams: list[bytes | None]) -> emm.TrustStore:
    """Knows every node that speaks, with the strategies' keys."""
    store = trust()
    for data in datagrams:
        try:
            node_id = emm.parse_untrusted(data or b"").node_id
        except BadPacket:
            continue
        if node_id is not None:
            store.add_hmac_key(node_id, b"key1", emm_packets.SECRET)
            store.add_public_key(node_id, b"key1", emm_packets.SIGNING_KEY.public_key)
    return store


def _times(data: st.DataObject, datagrams: list[bytes | None]) -> list[int]:
    """Around what each packet says of itself, so that all kinds of freshness occur."""
    times = []
    for datagram in datagrams:
        try:
            about_s = min(emm.parse_untrusted(datagram or b"").fresh_at_s, TIME_S_MAX - 1000)
        except BadPacket:
            about_s = NOW_S
        age_s = data.draw(st.sampled_from([-121, -120, 0, 1, 299, 300, 301]))
        times.append((about_s + age_s) * 1_000_000 + data.draw(st.sampled_from([0, 1, 500_000])))
    return times


@pytest.mark.req("SPK-03", "EMM-18", "EMM-20")
@settings(max_examples=120)
@given(
    st.lists(emm_packets.packets() | emm_packets.mangled_packets() | st.binary(max_size=20) | st.none(), max_size=8),
    st.booleans(),
    st.data(),
)
def test_any_emm_packets(datagrams: list[bytes | None], unsigned_allowed: bool, data: st.DataObject) -> None:
    using = means(_trusting(datagrams), unsigned_allowed=unsigned_allowed)
    check(datagrams, _times(data, datagrams), using)


@pytest.mark.req("SPK-03")
@settings(max_examples=120)
@given(st.lists(compact_packets.datagrams() | compact_packets.mutated() | emm_packets.packets(), max_size=8))
def test_any_compact_packets(datagrams: list[bytes]) -> None:
    check(list(datagrams), [NOW_US] * len(datagrams), means())


@given(st.lists(st.sampled_from([*emm_vectors().values(), *compact_vectors().values()]), max_size=6), st.data())
def test_good_packets_with_a_byte_changed(datagrams: list[bytes], data: st.DataObject) -> None:
    changed: list[bytes | None] = []
    for datagram in datagrams:
        at = data.draw(st.integers(0, len(datagram) - 1))
        changed.append(datagram[:at] + bytes((datagram[at] ^ data.draw(st.integers(0, 255)),)) + datagram[at + 1 :])
    check(changed, [NOW_US] * len(changed), means(unsigned_allowed=True))


def test_what_a_good_row_says() -> None:
    (row,) = judged(rows([event(7, 1, 2.5, b"\x00", {"a": 1})]), means())
    assert row | {"hash_high": 0, "hash_low": 0} == dict.fromkeys(VERDICT.names) | {
        "protocol": "emm",
        "kind": "event",
        "urgent": False,
        "node_id": str(NODE),
        "key_id": "6b657931",
        "message_id": 7,
        "created_at": row["created_at"],
        "verdict": "verified",
        "event_name": "plant.temp",
        "int_value": 1,
        "float_value": 2.5,
        "binary_value": b"\x00",
        "json_value": '{"a":1}',
        "admitted": True,
        "late": False,
        "hash_high": 0,
        "hash_low": 0,
        "seen_at_us": NOW_US,
    }
    assert row["created_at"].timestamp() == NOW_S


def test_no_value_is_lost_when_there_are_several_of_a_type() -> None:
    (row,) = judged(rows([event(7, 1, 2, b"\x01\x02")]), means())
    assert row["int_value"] == 1
    assert row["fields"] == '[{"string":"plant.temp"},{"integer":1},{"integer":2},{"binary":"0102"}]'


def test_what_a_notification_says() -> None:
    (row,) = judged(rows([notification(3, "21 °C".encode())]), means())
    assert (row["protocol"], row["kind"], row["verdict"]) == ("emm-c", "notification", "group")
    assert (row["priority"], row["format"], row["text_value"]) == ("info", "plain-text", "21 °C")
    assert row["message_id"] == 3 << 32 | EPOCH << 16 | 2


@pytest.mark.req("SPK-03", "EMC-13")
def test_old_and_future_notifications_are_refused_as_a_node_does() -> None:
    times = [NOW_US, NOW_US + 300_900_000, NOW_US + 301_000_000, NOW_US - 120_000_000, NOW_US - 121_000_000]
    datagrams: list[bytes | None] = [notification(number) for number in range(len(times))]
    using = means(epochs=Epochs.CLOCK)
    check(datagrams, times, using)
    found = judged(rows(datagrams, times), using)
    assert [row["reason"] for row in found] == [None, None, "stale", None, "future"]
    ahead = NOW_US, "as long as it is fresh, it is remembered"
    assert (found[3]["seen_at_us"], ahead[1]) == ahead


def test_heartbeats_and_joins_keep_all_their_fields() -> None:
    found = judged(rows([*compact_vectors().values()]), means())
    assert {row["kind"] for row in found} == {"notification", "command", "heartbeat", "join"}
    for row in found:
        assert (row["fields"] is None) == (row["kind"] == "notification")
        if row["kind"] == "heartbeat":
            assert '"uptime":' in row["fields"]


@pytest.mark.req("EMM-23")
def test_sealed_packets_are_opened_with_their_key_and_kept_without() -> None:
    seal = emm.Seal(emm.Encryption(emm.Algorithm.AES_256_GCM, bytes(12), bytes(16)), SEAL_KEY)
    draft = emm.draft_event(1, NOW_S, "secret.name", {"a": [1]}, node_id=NODE)
    sealed = emm.build(draft, emm.Credentials(b"key1", hmac_key=SECRET), seal=seal)
    (opened,) = judged(rows([sealed]), means())
    assert (opened["event_name"], opened["json_value"], opened["reason"]) == ("secret.name", '{"a":[1]}', None)
    (kept,) = judged(rows([sealed]), Means(Keys(trust(), ring()), emm.Terms(), HASHER))
    assert (kept["event_name"], kept["reason"]) == (None, str(Reject.UNDECRYPTABLE))
    assert "no key to decrypt with" in kept["detail"]
    assert kept["admitted"], "a second copy of it is a replay, as the judge has it"


def test_a_forged_hmac_says_so_in_words() -> None:
    forged = bytearray(event(1))
    forged[-1] ^= 1
    (row,) = judged(rows([bytes(forged)]), means())
    assert (row["reason"], row["admitted"]) == ("bad-hmac", False)
    assert row["detail"] == f"HMAC does not fit (node {NODE})"
    assert row["node_id"] == str(NODE), "whom it claims to be from"


def test_carried_keys_by_policy() -> None:
    stranger = emm.SigningKey(b"\x05" * 32)
    draft = emm.draft_event(1, NOW_S, "n", node_id=NODE)
    packet = emm.build(draft, emm.Credentials(b"key9", signing_key=stranger, carry_public_key=True))
    (pinned,) = judged(rows([packet]), means())
    assert pinned["reason"] == "untrusted-key"
    anybody = emm.TrustStore(emm.TrustPolicy.ANY)
    anybody.add_public_key(NODE, b"key1", SIGNER.public_key)
    (taken,) = judged(rows([packet]), means(anybody))
    assert (taken["reason"], taken["verdict"]) == (None, Verdict.UNVERIFIED_IDENTITY)


def _claim(message_id: int, credentials: emm.Credentials | None = None, node_id: UUID | None = NODE) -> bytes:
    return emm.build(emm.draft_event(message_id, NOW_S, "n", node_id=node_id), credentials)


def _stranger(seed: int) -> emm.Credentials:
    return emm.Credentials(b"key9", signing_key=emm.SigningKey(bytes([seed]) * 32), carry_public_key=True)


@pytest.mark.req("SPK-03", "EMM-19")
def test_an_unproven_node_id_is_no_mark_of_that_node() -> None:
    """A mark is made of what is proven: a verified node id, the key that signed, or the source address."""
    signed = emm.Credentials(b"key1", signing_key=SIGNER)
    datagrams = [_claim(1), _claim(1, _stranger(5)), _claim(1, _stranger(6)), event(1), _claim(1, signed)]
    using = means(_trusting_anybody(), unsigned_allowed=True)
    here, there = (judged(rows(datagrams, source=source), using) for source in ("192.0.2.7:1", "192.0.2.7:2"))
    assert [row["reason"] for row in here] == [None] * len(datagrams)
    marks = [(row["hash_high"], row["hash_low"]) for row in here]
    assert len(set(marks[:4])) == 4
    assert marks[3] == marks[4], "two proofs for one node id"
    elsewhere = [(row["hash_high"], row["hash_low"]) for row in there]
    assert [mark == other for mark, other in zip(marks, elsewhere, strict=True)] == [False, True, True, True, True]


@pytest.mark.req("SPK-03", "EMM-19")
@settings(max_examples=60)
@given(st.data())
def test_marks_of_columns_tell_packets_apart_as_the_judges_memory_does(data: st.DataObject) -> None:
    kinds: list[bytes] = [
        maker(number)
        for number in (1, 2)
        for maker in (
            event,
            _claim,
            lambda number: _claim(number, node_id=None),
            lambda number: _claim(number, _stranger(5)),
            lambda number: _claim(number, _stranger(6)),
            lambda number: _claim(number, emm.Credentials(b"key1", signing_key=SIGNER)),
        )
    ]
    arriving = st.tuples(st.sampled_from(kinds), st.sampled_from(["192.0.2.7:1", "192.0.2.7:2", None]))
    chosen = data.draw(st.lists(arriving, max_size=12))
    using = means(_trusting_anybody(), unsigned_allowed=True)
    receiver = emm.Judge(_trusting_anybody(), emm.Terms(unsigned_allowed=True))
    seen: set[tuple[int, int]] = set()
    packets = [rows([datagram], source=source, first=place) for place, (datagram, source) in enumerate(chosen)]
    for row, (datagram, source) in zip(judged(_joined(packets), using), chosen, strict=True):
        mark = (row["hash_high"], row["hash_low"])
        try:
            receiver.receive_datagram(datagram, (source or "").encode(), NOW_S)
        except BadPacket as refusal:
            assert refusal.reason is Reject.REPLAY
            assert mark in seen
        else:
            assert mark not in seen
        seen.add(mark)


def _trusting_anybody() -> emm.TrustStore:
    store = emm.TrustStore(emm.TrustPolicy.ANY)
    store.add_hmac_key(NODE, b"key1", SECRET)
    store.add_public_key(NODE, b"key1", SIGNER.public_key)
    return store


def _joined(packets: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(packets) if packets else rows([])


@pytest.mark.req("EMM-20")
def test_without_a_time_of_arrival_a_packets_own_time_stands_in() -> None:
    (row,) = judged(rows([event(1, at_s=1000)], None), means())
    assert (row["reason"], row["late"], row["seen_at_us"]) == (None, False, 1_000_000_000)
    (compact,) = judged(rows([notification(1)], None), means())
    assert (compact["reason"], compact["late"], compact["admitted"]) == (None, True, False)


def test_what_is_wrong_with_a_capture_becomes_a_row() -> None:
    packets = rows([None])
    packets = packets.set_column(8, "problem", pa.array(["last packet is cut off"]))
    (row,) = judged(packets, means())
    assert (row["reason"], row["detail"], row["admitted"]) == ("capture", "last packet is cut off", False)


def test_more_rows_than_a_block_keep_their_order() -> None:
    datagrams = [event(number) if number % 3 else notification(number) for number in range(60)]
    many = (datagrams * (BLOCK_ROWS // 60 + 1))[: BLOCK_ROWS + 11]
    ids = [row["message_id"] for row in judged(rows(many), means())]
    assert ids == [
        number % 60 if number % 60 % 3 else number % 60 << 32 | EPOCH << 16 | 2 for number in range(len(many))
    ]


def test_slices_are_read_from_where_they_begin() -> None:
    packets = rows([event(number) for number in range(10)]).slice(4, 3)
    assert [row["message_id"] for row in judged(packets, means())] == [4, 5, 6]


def test_no_rows() -> None:
    assert list(judge(rows([]), means())) == []
