"""Batches that are appended together: small ones of a stream become one, and each keeps its place and its sequence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.log.laboratory import LABORATORIES, Laboratory, laboratory
from weft.errors import WeftError
from weft.log import Appended
from weft.log.errors import SequenceReused
from weft.log.gathering import GATHERED_MAX, rounds
from weft.model import Batch, NodeId, Stream, Topic
from weft.model.batch_few import FEW_MAX

A = Stream(Topic("plant.a"), NodeId("node-a"), 0)
B = Stream(Topic("plant.b"), NodeId("node-a"), 0)
ANNA, BERT = b"a" * 16, b"b" * 16


@pytest.fixture(params=LABORATORIES)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    made = laboratory(request.param, tmp_path_factory.mktemp("log"))
    yield made
    made.close()


def batch(*payloads: bytes, producer: bytes | None = None, sequence: int = 0, keys: bool = False) -> Batch:
    names = [b"k" + payload for payload in payloads] if keys else None
    headers = [{"h": payload.decode()} for payload in payloads] if keys else None
    return Batch.from_columns(payloads, 7, names, headers, producer=producer, sequence=sequence)


def payloads(lab: Laboratory, stream: Stream) -> list[bytes]:
    stored = lab.log.read(stream, lab.log.epoch, 0)
    return [event.payload for data in stored for event in Batch.read_untrusted(data)]


def place(outcome: Appended | WeftError) -> tuple[int, int, bool]:
    assert isinstance(outcome, Appended), outcome
    return outcome.first_offset, outcome.count, outcome.repeated


@pytest.mark.req("LOG-01")
def test_small_batches_of_one_stream_are_stored_as_one(lab: Laboratory) -> None:
    wanted = [
        (A, batch(b"1", producer=ANNA, sequence=1)),
        (B, batch(b"x")),
        (A, batch(b"2", b"3", producer=BERT, sequence=9, keys=True)),
        (A, batch(b"4")),
    ]
    outcomes = lab.log.append_all(wanted)
    assert [place(each) for each in outcomes] == [(0, 1, False), (0, 1, False), (1, 2, False), (3, 1, False)]
    assert len({each.ticket for each in outcomes if isinstance(each, Appended)}) == 1, "one write"
    lab.log.sync()
    assert len(lab.log.read(A, lab.log.epoch, 0)) == 1
    for _ in lab.lives():
        assert payloads(lab, A) == [b"1", b"2", b"3", b"4"]
        assert payloads(lab, B) == [b"x"]
        (stored,) = lab.log.read(A, lab.log.epoch, 0)
        assert [event.key for event in Batch.read_stored(stored)] == [None, b"k2", b"k3", None]
        assert [event.headers for event in Batch.read_stored(stored)] == [None, {"h": "2"}, {"h": "3"}, None]
        assert Batch.read_stored(stored).producer is None, "it is nobody's"


@pytest.mark.req("SDK-01")
def test_each_is_recognised_when_it_is_sent_again_in_every_life(lab: Laboratory) -> None:
    first, second = batch(b"1", producer=ANNA, sequence=1), batch(b"2", b"3", producer=BERT, sequence=9)
    lab.log.append_all([(A, first), (A, second)])
    lab.log.sync()
    for _ in lab.lives():
        again = lab.log.append_all([(A, second), (A, first)])
        assert [place(each) for each in again] == [(1, 2, True), (0, 1, True)]
        (other,) = lab.log.append_all([(A, batch(b"9", producer=ANNA, sequence=1))])
        assert isinstance(other, SequenceReused)
        assert payloads(lab, A) == [b"1", b"2", b"3"]


@pytest.mark.req("SDK-01")
def test_they_are_recognised_when_their_segment_is_closed(lab: Laboratory) -> None:
    first, second = batch(b"1", producer=ANNA, sequence=1), batch(b"2", producer=BERT, sequence=9)
    lab.log.append_all([(A, first), (A, second)])
    lab.log.begin_segment()
    lab.log.append_all([(A, batch(b"3", producer=ANNA, sequence=2)), (A, batch(b"4"))])
    lab.log.sync()
    for _ in lab.lives():
        again = lab.log.append_all([(A, first), (A, second), (A, batch(b"3", producer=ANNA, sequence=2))])
        assert [place(each) for each in again] == [(0, 1, True), (1, 1, True), (2, 1, True)]


def test_what_comes_twice_at_once_is_stored_once(lab: Laboratory) -> None:
    one = batch(b"1", producer=ANNA, sequence=1)
    outcomes = lab.log.append_all([(A, one), (A, batch(b"2")), (A, one), (A, batch(b"3"))])
    assert [place(each) for each in outcomes] == [(0, 1, False), (1, 1, False), (0, 1, True), (2, 1, False)]
    lab.log.sync()
    assert payloads(lab, A) == [b"1", b"2", b"3"]


def test_a_bad_one_does_not_harm_the_others(lab: Laboratory) -> None:
    lab.log.append_all([(A, batch(b"1", producer=ANNA, sequence=5))])
    outcomes = lab.log.append_all(
        [(A, batch(b"2")), (A, batch(b"other", producer=ANNA, sequence=5)), (A, batch(b"3", producer=ANNA, sequence=6))]
    )
    assert [isinstance(each, Appended) for each in outcomes] == [True, False, True]
    lab.log.sync()
    assert payloads(lab, A) == [b"1", b"2", b"3"]


def test_new_streams_in_one_write_are_told_apart(lab: Laboratory) -> None:
    streams = [Stream(Topic(f"plant.t{number}"), NodeId("node-a"), 0) for number in range(50)]
    lab.log.append_all([(stream, batch(stream.topic.encode())) for stream in streams for _ in range(2)])
    lab.log.sync()
    for _ in lab.lives():
        assert all(payloads(lab, stream) == [stream.topic.encode()] * 2 for stream in streams)


def test_large_batches_stay_as_they_are(lab: Laboratory) -> None:
    large = batch(*[b"x"] * (FEW_MAX + 1))
    lab.log.append_all([(A, batch(b"1")), (A, large), (A, batch(b"2")), (A, batch(b"3"))])
    lab.log.sync()
    stored = lab.log.read(A, lab.log.epoch, 0)
    assert [len(Batch.read_stored(data)) for data in stored] == [1, FEW_MAX + 1, 2]


def test_a_full_disk_stores_nothing_of_a_write(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.log.append(A, batch(b"1"))
    lab.log.sync()
    with monkeypatch.context() as patch:
        patch.setattr(lab.log.store, "free_bytes", lambda: 0)
        patch.setattr(lab.log, "_unchecked_bytes", 0)
        outcomes = lab.log.append_all([(A, batch(b"2", producer=ANNA, sequence=1)), (B, batch(b"x"))])
    assert all(isinstance(each, WeftError) for each in outcomes)
    again = lab.log.append_all([(A, batch(b"2", producer=ANNA, sequence=1)), (B, batch(b"x"))])
    assert [place(each) for each in again] == [(1, 1, False), (0, 1, False)]


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_rounds_hold_every_batch_once_and_in_the_order_of_its_stream(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, FEW_MAX + 1]), min_size=1, max_size=12))
    made = {size: batch(*[b"x"] * size) for size in (1, 2, FEW_MAX + 1)}
    wanted = []
    for number, size in enumerate(sizes):
        producer = data.draw(st.sampled_from([None, ANNA, BERT]))
        one = made[size] if producer is None else made[size].with_producer(producer, data.draw(st.integers(1, 4)))
        wanted.append((data.draw(st.sampled_from([A, B])), one))
        assert number < GATHERED_MAX
    seen: dict[Stream, list[int]] = {A: [], B: []}
    for one_round in rounds(wanted):
        assert len({stream for stream, _ in one_round}) == len(one_round), "a stream has one entry in a round"
        for stream, run in one_round:
            assert run, "no entry is empty"
            seen[stream] += [number for number, _ in run]
            batches = [batch for _, batch in run]
            assert batches == [wanted[number][1] for number, _ in run]
            if len(run) > 1:
                assert all(len(each) <= FEW_MAX for each in batches)
                for producer in (ANNA, BERT):
                    numbers = [each.sequence for each in batches if each.producer == producer]
                    assert numbers == sorted(set(numbers)), "a repetition is looked at when the first one is stored"
    assert seen == {stream: [at for at, (its, _) in enumerate(wanted) if its == stream] for stream in (A, B)}
