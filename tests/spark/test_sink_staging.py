"""What is decided, without any node: records, their bounds, and which of them counts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.model import Epoch, NodeId, Pattern, Topic
from weft.model.batch_header import PRODUCER_BYTES, SEQUENCE_MAX
from weft.security.acl import Acl
from weft.spark import staging as room
from weft.spark.staging import (
    NUMBER_MAX,
    SINK_STAGED_MAX,
    Applied,
    BadDecision,
    Decided,
    OthersDecision,
    Record,
    Staged,
    StagedBatch,
    Target,
    Writing,
    application_id,
    applied_sequence,
    as_staged,
    batch_sequence,
    decide,
    decided_sequence,
    decode_untrusted,
    encode,
    entries,
    outstanding,
    query_id,
    runs,
    seal,
    unseal_untrusted,
)

ME = "0123456789abcdef"

A, B = Target(Topic("plant.a"), 0), Target(Topic("plant.b"), 3)


def staged(task: int, *batches: tuple[Target, int], origin: str = "n0", epoch: int = 7) -> Staged:
    return Staged(task, tuple(StagedBatch(target, NodeId(origin), Epoch(epoch), offset) for target, offset in batches))


DECIDED = decide(5, [staged(1, (B, 12), (A, 13)), staged(0, (A, 10), (A, 11), (B, 20)), staged(2)])


def test_a_decision_lists_batches_by_task_and_row() -> None:
    found = [(entry.target, entry.offset) for entry in entries(DECIDED)]
    assert found == [(A, 10), (A, 11), (B, 20), (B, 12), (A, 13)]
    assert (DECIDED.number, DECIDED.origin, DECIDED.epoch) == (5, "n0", 7)
    assert [[entry.offset for entry in run] for run in runs(entries(DECIDED))] == [[10, 11], [20], [12, 13]]


def test_batches_of_tasks_side_by_side_are_read_in_one_go() -> None:
    """One task has staged 10, 12 and 14 for one topic, the other 11, 13 and 15 for another."""
    decided = decide(5, [staged(0, (A, 10), (A, 12), (A, 14)), staged(1, (B, 11), (B, 13), (B, 15))])
    found = list(entries(decided))
    assert len(list(runs(found))) == 6
    (run,) = runs(as_staged(found))
    assert [(entry.target, entry.offset) for entry in run] == [(A, 10), (B, 11), (A, 12), (B, 13), (A, 14), (B, 15)]
    assert sorted(run) == sorted(found), "with the same sequences"


@given(st.lists(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 30)), max_size=6), max_size=3))
def test_each_target_keeps_the_order_of_the_decision(tasks: list[list[tuple[Target, int]]]) -> None:
    found = list(entries(decide(5, [staged(task, *batches) for task, batches in enumerate(tasks)])))
    read = as_staged(found)
    assert sorted(read) == sorted(found)
    for target in (A, B):
        assert [entry for entry in read if entry.target == target] == [
            entry for entry in found if entry.target == target
        ]


def test_a_write_without_rows_is_decided_too() -> None:
    empty = decide(0, [staged(0), staged(1)])
    assert (list(entries(empty)), list(runs([]))) == ([], [])
    assert decode_untrusted(encode(empty)) == empty


@given(st.integers(0, NUMBER_MAX - 1), st.integers(0, SINK_STAGED_MAX - 1), st.integers(0, SINK_STAGED_MAX - 1))
def test_sequences_grow_with_the_writes(number: int, one: int, other: int) -> None:
    assert batch_sequence(number, one) < batch_sequence(number + 1, other) <= SEQUENCE_MAX
    assert decided_sequence(number) < applied_sequence(number) < decided_sequence(number + 1) <= SEQUENCE_MAX


def test_jobs_do_not_meet() -> None:
    ids = [query_id("q"), query_id("r"), application_id("q")]
    writings = [Writing(ME, each) for each in ids]
    names = {name for each in writings for name in (each.id, each.staging, each.decisions)}
    producers = {producer for each in writings for producer in (each.decider, each.applier(b"s"))}
    assert (len(names), len(producers)) == (9, 6)
    assert {len(producer) for producer in producers} == {PRODUCER_BYTES}
    assert query_id("q") == ids[0], "the same after a restart"
    assert writings[0].applier(b"s") != writings[0].applier(b"t"), "only who has the key can number its batches"


@pytest.mark.req("SEC-03")
def test_their_topics_are_their_owners() -> None:
    writing = Writing(ME, query_id("q"))
    for topic in (writing.staging, writing.decisions):
        for owner, allowed in ((ME, True), ("f" * 16, False), ("", False)):
            somebody = Acl("somebody", owner=owner)
            assert (somebody.may_publish(topic), somebody.may_subscribe(Pattern(topic))) == (allowed, allowed)


def test_an_owner_that_is_none_is_refused() -> None:
    """It comes from a node."""
    for owner in ("", "*", "0123", "0" * 16 + ".x"):
        with pytest.raises(UsageError, match="with an owner"):
            _ = Writing(owner, query_id("q")).staging


# --- which one counts ------------------------------------------------------------------------------------------------

OTHER = decide(5, [staged(0, (A, 99))])


@pytest.mark.parametrize(
    ("records", "counts"),
    [
        ([DECIDED], DECIDED),
        ([DECIDED, OTHER], DECIDED),
        ([Applied(4), DECIDED], DECIDED),
        ([decide(4, []), Applied(4), OTHER, DECIDED], OTHER),
        ([DECIDED, Applied(5)], None),
        ([Applied(5), OTHER], None),
        ([DECIDED, decide(6, [])], None),
        ([Applied(6), OTHER], None),
    ],
)
def test_the_first_decision_counts_until_it_is_applied(records: list[Record], counts: Decided | None) -> None:
    assert outstanding(records, 5) == counts


def test_a_receipt_without_a_decision_is_an_error() -> None:
    with pytest.raises(BadDecision, match="not there"):
        outstanding([Applied(4)], 5)


# --- bounds and mistakes -------------------------------------------------------------------------------------------


def test_one_write_is_staged_at_one_node() -> None:
    with pytest.raises(UsageError, match=r"n0 epoch 7, n1 epoch 7"):
        decide(1, [staged(0, (A, 1)), staged(1, (A, 2), origin="n1")])
    with pytest.raises(UsageError, match="lost its log"):
        decide(1, [staged(0, (A, 1)), staged(1, (A, 2), epoch=8)])


def test_a_write_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SINK_STAGED_MAX", 2)
    with pytest.raises(UsageError, match=r"batches.*maxEventsPerTrigger.*have 3, limit 2"):
        decide(1, [staged(0, (A, 1), (A, 2), (A, 3))])
    monkeypatch.setattr(room, "SINK_TARGETS_MAX", 1)
    with pytest.raises(UsageError, match=r"targets.*have 2, limit 1"):
        decide(1, [staged(0, (A, 1), (B, 2))])
    monkeypatch.setattr(room, "EVENT_PAYLOAD_BYTES_MAX", 10)
    with pytest.raises(UsageError, match="write less"):
        seal(b"x", b"")
    for number in (-1, NUMBER_MAX + 1):
        with pytest.raises(UsageError, match="number"):
            decide(number, [])


BROKEN = {
    "nothing": b"",
    "not JSON": b"{",
    "another thing": b'{"is":"what","number":1}',
    "negative": b'{"is":"applied","number":-1}',
    "too large": b'{"is":"applied","number":99999999999999999}',
    "not text": b'{"is":"\xff"}',
    "target out of reach": msgspec.json.encode(Decided(1, "n0", 1, (("a", 0),), ((1, 0),))),
    "offset out of reach": msgspec.json.encode(Decided(1, "n0", 1, (("a", 0),), ((0, -1),))),
    "no topic": msgspec.json.encode(Decided(1, "n0", 1, (("a..b", 0),), ((0, 0),))),
    "no partition": msgspec.json.encode(Decided(1, "n0", 1, (("a", 1 << 16),), ((0, 0),))),
    "no node": msgspec.json.encode(Decided(1, "", 1, (("a", 0),), ((0, 0),))),
    "no epoch": msgspec.json.encode(Decided(1, "n0", -1, (("a", 0),), ((0, 0),))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_record_is_refused(name: str) -> None:
    with pytest.raises(BadDecision):
        decode_untrusted(BROKEN[name])


def test_a_list_over_its_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(DECIDED)
    monkeypatch.setattr(room, "SINK_STAGED_MAX", 2)
    with pytest.raises(BadDecision, match="bounds"):
        decode_untrusted(data)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: f"[{text}]".encode())))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        record = decode_untrusted(data)
    except BadDecision:
        return
    assert decode_untrusted(encode(record)) == record


targets = st.builds(Target, st.sampled_from([Topic("a"), Topic("b.c"), Topic('q"\\uote')]), st.integers(0, 65_535))


@given(
    st.lists(st.lists(st.tuples(targets, st.integers(0, 1 << 62)), max_size=5), max_size=5),
    st.integers(0, NUMBER_MAX),
)
def test_records_survive_the_log(tasks: list[list[tuple[Target, int]]], number: int) -> None:
    decided = decide(number, [staged(task, *batches) for task, batches in enumerate(tasks)])
    again = decode_untrusted(encode(decided))
    assert again == decided
    assert isinstance(again, Decided)
    wanted = [batch for batches in tasks for batch in batches]
    assert [(entry.target, entry.offset) for entry in entries(again)] == wanted
    assert [entry for run in runs(entries(again)) for entry in run] == list(entries(again))


@given(st.binary(max_size=50), st.binary(max_size=10), st.binary(max_size=10))
def test_seals(data: bytes, one: bytes, other: bytes) -> None:
    sealed = seal(data, one)
    assert unseal_untrusted(sealed, one) == data
    for payload, secret in ((sealed, other + b"x" + one), (sealed[:-1], one), (sealed + b"x", one), (data, one)):
        with pytest.raises(OthersDecision):
            unseal_untrusted(payload, secret)
