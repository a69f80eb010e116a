"""Staging, deciding and applying against a real node, with a crash at every step. No Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from weft.client import Options, PositionExpired, Unavailable
from weft.client.blocking import Client, connect
from weft.errors import UsageError
from weft.model import Batch, Receipt
from weft.spark import sink_calls, sink_rows, sink_steps
from weft.spark.sink_books import Books
from weft.spark.sink_calls import StagingLost
from weft.spark.sink_steps import commit_unnamed, stage
from weft.spark.staging import BadDecision, Decided, OthersDecision, Staged, Writing, decide, encode, query_id, seal
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

JOBS = count()
TIMEOUT_S = 20.0
SECRET = b"of this job"


def commit(client: Any, writing: Writing, number: int, tasks: Iterable[Staged], copies: int) -> None:
    sink_steps.commit(Books(client, writing, SECRET), number, tasks, copies)


@pytest.fixture(scope="module")
def mesh() -> Iterator[BlockingMesh]:
    with blocking_mesh(nodes=1) as mesh:
        yield mesh


@pytest.fixture
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client() as client:
        yield client


class Job:
    """A job with a name of its own, and topics of its own."""

    def __init__(self, client: Client) -> None:
        self.number = next(JOBS)
        self.client = client
        self.writing = Writing(client.owner(), query_id(f"test {self.number}"))

    def staged(self, *tasks: list[tuple[str, int]], client: Client | None = None) -> list[Staged]:
        """Rows of tasks: to which topic, and which number they carry."""
        found = []
        for task, rows in enumerate(tasks):
            pieces = [
                pa.record_batch(
                    {
                        "topic": [f"job{self.number}.{topic}" for topic, _ in some],
                        "value": [str(number) for _, number in some],
                    }
                )
                for some in (rows[:3], rows[3:])
                if some
            ]
            found.append(stage(client or self.client, self.writing, task, pieces, None))
        return found

    def there(self, topic: str) -> list[int]:
        """The numbers in a topic, as they are in the log."""
        found: list[int] = []
        for place in self.client.positions(f"job{self.number}.{topic}"):
            for batch in self.client.fetch(place.stream, place.epoch, 0):
                found += [int(payload) for payload in batch.record_batch.column("payload").to_pylist()]
        return found


class Crash(Exception):
    """The driver is gone."""


class Dying:
    """A client whose process dies at the step with this number, before it is done or after."""

    def __init__(self, client: Client, step: int, *, after: bool) -> None:
        self._client = client
        self._left = step
        self._after = after

    def publish_batch_nowait(self, *arguments: Any, **named: Any) -> Future[Receipt]:
        self._step()
        future = self._client.publish_batch_nowait(*arguments, **named)
        if self._left < 0:
            future.result(TIMEOUT_S)
            raise Crash
        return future

    def check_publish(self, topics: Sequence[str]) -> None:
        """Changes nothing, so to die here is to die before the step that follows."""
        self._client.check_publish(topics)

    def fetch_many(self, *arguments: Any, **named: Any) -> Any:
        self._step()
        if self._left < 0:
            raise Crash
        return self._client.fetch_many(*arguments, **named)

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Crash


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_rows, "SINK_BATCH_BYTES", 1)
    monkeypatch.setattr(sink_rows, "SINK_GATHER_BYTES", 64)


ROWS: list[list[tuple[str, int]]] = [
    [("a", 0), ("b", 1), ("a", 2), ("a", 3), ("b", 4), ("a", 5)],
    [("a", 6), ("a", 7), ("b", 8), ("b", 9)],
]


def numbers(tasks: list[list[tuple[str, int]]], topic: str) -> list[int]:
    return [number for rows in tasks for name, number in rows if name == topic]


def shuffled(seed: int) -> list[list[tuple[str, int]]]:
    """The same rows in another order, over another number of tasks."""
    chance = random.Random(seed)  # noqa: S311
    rows = [row for task in ROWS for row in task]
    chance.shuffle(rows)
    cuts = sorted(chance.sample(range(len(rows) + 1), 2))
    return [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]


@pytest.mark.req("SPK-02")
def test_a_write_arrives_in_the_order_of_its_rows(client: Client, small_batches: None) -> None:
    job = Job(client)
    commit(client, job.writing, 0, job.staged(*ROWS), 1)
    for topic in "ab":
        assert job.there(topic) == numbers(ROWS, topic)


@pytest.mark.req("SPK-02")
@pytest.mark.parametrize("after", [False, True])
def test_a_driver_may_die_at_every_step(client: Client, small_batches: None, after: bool) -> None:
    steps = 0
    for step in count():
        job = Job(client)
        died = False
        try:
            commit(Dying(client, step, after=after), job.writing, 3, job.staged(*ROWS), 1)
        except Crash:
            died = True
        again = shuffled(step)
        commit(client, job.writing, 3, job.staged(*again), 1)
        for topic in "ab":
            assert job.there(topic) in (numbers(ROWS, topic), numbers(again, topic)), f"died at step {step}"
        assert (job.there("a") == numbers(ROWS, "a")) == (job.there("b") == numbers(ROWS, "b")), "all by one decision"
        steps = step
        if not died:
            break
    assert steps > 12, "there were not many steps to die at"


@pytest.mark.req("SPK-02")
def test_a_driver_may_die_again_and_again(client: Client, small_batches: None) -> None:
    job = Job(client)
    expected: Counter[int] = Counter()
    chance = random.Random(8)  # noqa: S311
    for number in range(6):
        for attempt in range(6):
            step = chance.randrange(30) if attempt < 5 else 1000
            dying: Any = Dying(client, step, after=chance.random() < 0.5)
            try:
                commit(dying, job.writing, number, job.staged(*shuffled(chance.randrange(1000))), 1)
                break
            except Crash:
                continue
        expected.update(number for task in ROWS for _, number in task)
    assert Counter(job.there("a") + job.there("b")) == expected


@pytest.mark.req("SPK-02")
def test_what_failed_tasks_staged_is_garbage(client: Client) -> None:
    job = Job(client)
    job.staged(*ROWS)
    counts = job.staged([("a", 1)], [("a", 2)])
    job.staged(*ROWS)
    commit(client, job.writing, 0, reversed(counts), 1)
    assert (job.there("a"), job.there("b")) == ([1, 2], [])


def test_a_write_from_before_is_done_already(client: Client) -> None:
    job = Job(client)
    for number in range(40):  # more than the log remembers of a producer
        commit(client, job.writing, number, job.staged([("a", number)]), 1)
    for number in (0, 38, 39):
        commit(client, job.writing, number, job.staged([("a", 100 + number)]), 1)
    assert job.there("a") == list(range(40))


def test_a_node_that_forgot_the_job_is_told_by_its_log(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(client)
    dying: Any = Dying(client, 3, after=True)
    with pytest.raises(Crash):
        commit(dying, job.writing, 0, job.staged([("a", 1)], [("a", 2)], [("a", 3)]), 1)
    monkeypatch.setattr(Writing, "decider", bytes(range(16)))  # as if it had never heard of it
    commit(client, job.writing, 0, job.staged([("a", 9)]), 1)
    assert job.there("a") == [1, 2, 3]


def test_a_write_without_rows(client: Client) -> None:
    job = Job(client)
    commit(client, job.writing, 0, job.staged([], []), 1)
    commit(client, job.writing, 0, job.staged([("a", 1)]), 1)
    commit(client, job.writing, 1, job.staged([("a", 2)]), 1)
    assert job.there("a") == [2]


def test_writes_that_nobody_repeats_leave_no_decision(client: Client) -> None:
    job = Job(client)
    commit_unnamed(client, job.writing, job.staged(*ROWS), 1)
    assert job.there("a") == numbers(ROWS, "a")
    assert client.positions(job.writing.decisions) == []


def test_partitions_and_columns_arrive(client: Client) -> None:
    job = Job(client)
    rows = pa.record_batch(
        {
            "value": [b"v"],
            "key": [b"k"],
            "headers": pa.array([[("h", "1")]], pa.map_(pa.string(), pa.string())),
            "timestamp": pa.array([5], pa.timestamp("us", "UTC")),  # in 1970: it would expire at once if staged so
            "partition": pa.array([7], pa.int32()),
        }
    )
    topic: Any = f"job{job.number}.t"
    commit(client, job.writing, 0, [stage(client, job.writing, 0, [rows], topic)], 1)
    [place] = client.positions(topic)
    [batch] = client.fetch(place.stream, place.epoch, 0)
    [event] = batch.events()
    assert (event.partition, event.key, event.headers, event.timestamp_us) == (7, b"k", {"h": "1"}, 5)
    [place] = client.positions(job.writing.staging)
    assert place.first_timestamp_us > 5


# --- what can go wrong -----------------------------------------------------------------------------------------------


def without_its_rows(job: Job) -> Any:
    """A job's write that is decided and not applied."""
    dying: Any = Dying(job.client, 1, after=True)
    with pytest.raises(Crash):
        commit(dying, job.writing, 0, job.staged([("a", 1)]), 1)


class Forgetful:
    """A client of a node whose retention has passed what this says."""

    def __init__(self, client: Client, is_gone: Callable[[str], bool]) -> None:
        self._client = client
        self._is_gone = is_gone
        self.publish_batch_nowait = client.publish_batch_nowait

    def check_publish(self, topics: Sequence[str]) -> None:
        self._client.check_publish(topics)

    def fetch_many(self, stream: Any, *arguments: Any) -> Any:
        if self._is_gone(stream.topic):
            raise PositionExpired("retention has passed it", earliest=99)
        return self._client.fetch_many(stream, *arguments)


def test_rows_that_expired_before_they_were_applied(client: Client) -> None:
    job = Job(client)
    without_its_rows(job)
    forgetful: Any = Forgetful(client, lambda topic: topic == job.writing.staging)
    with pytest.raises(StagingLost, match=r"kept for 24 hours.*new checkpoint.*write 0, node n0.*earliest 99"):
        commit(forgetful, job.writing, 0, job.staged([("a", 1)]), 1)
    assert job.there("a") == []


def test_a_decision_that_expired(client: Client) -> None:
    job = Job(client)
    without_its_rows(job)
    forgetful: Any = Forgetful(client, lambda topic: topic == job.writing.decisions)
    with pytest.raises(StagingLost, match="the decision is gone"):
        commit(forgetful, job.writing, 0, job.staged([("a", 1)]), 1)


def test_rows_that_were_never_staged(client: Client) -> None:
    job = Job(client)
    [staged] = job.staged([("a", 1)])
    gone = [Staged(0, (staged.batches[0]._replace(offset=5),))]
    with pytest.raises(StagingLost):
        commit(client, job.writing, 0, gone, 1)


def test_a_decision_from_somewhere_else(client: Client) -> None:
    job = Job(client)
    [staged] = job.staged([("a", 1)])
    elsewhere = [Staged(0, (staged.batches[0]._replace(origin="n9"),))]  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"own address.*staged at n9, decided at n0"):
        commit(client, job.writing, 0, elsewhere, 1)


def test_what_is_staged_is_not_believed(client: Client) -> None:
    job = Job(client)
    [staged] = job.staged([("a", 1)])
    receipt = client.publish(job.writing.staging, b"not a batch")
    forged = [Staged(0, (staged.batches[0]._replace(offset=receipt.first_offset),))]
    with pytest.raises(BadDecision, match="not a batch"):
        commit(client, job.writing, 0, forged, 1)


def test_a_decision_that_somebody_else_wrote_is_read_with_care(client: Client) -> None:
    job = Job(client)
    forged = encode(Decided(0, "n0", 1, (("a", 0),), ((0, 0),))).replace(b'"a"', b'"a..b"')
    client.publish_batch(job.writing.decisions, Batch.from_columns([seal(forged, SECRET)], 0))
    with pytest.raises(BadDecision, match="not a decision"):
        commit(client, job.writing, 0, job.staged([("a", 1)]), 1)


def test_a_node_that_is_gone_is_named_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_calls, "SINK_NODE_TIMEOUT_S", 0.2)
    quick = Options(call_timeout_s=0.5)
    with blocking_mesh(nodes=1) as mesh, connect([mesh.address("n0")], insecure=True, options=quick) as client:
        job = Job(client)
        staged = job.staged([("a", 1)])
        mesh.kill("n0")
        with pytest.raises(Unavailable, match="run it again when the node is back"):
            commit(client, job.writing, 0, staged, 1)
        mesh.restart("n0")
        monkeypatch.setattr(sink_calls, "SINK_NODE_TIMEOUT_S", TIMEOUT_S)
        commit(client, job.writing, 0, staged, 1)
        assert job.there("a") == [1]


def test_a_node_may_restart_in_the_middle(small_batches: None) -> None:
    with blocking_mesh(nodes=1) as mesh, mesh.client() as client:
        job = Job(client)
        dying: Any = Dying(client, 6, after=True)
        with pytest.raises(Crash):
            commit(dying, job.writing, 0, job.staged(*ROWS), 1)
        mesh.kill("n0")
        mesh.restart("n0")
        commit(client, job.writing, 0, job.staged(*shuffled(1)), 1)
        for topic in "ab":
            assert job.there(topic) == numbers(ROWS, topic)


def test_a_decision_needs_the_key_of_the_job(client: Client) -> None:
    """Who knows the id of a job may write among its decisions, and cannot make it publish anything."""
    job = Job(client)
    [staged] = job.staged([("a", 666)])
    with pytest.raises(BadDecision, match="not there"):
        forging = Books(client, job.writing, b"another")
        assert forging.decided(decide(0, [staged])) is not None
        commit(client, job.writing, 0, job.staged([("a", 1)]), 1)
    assert job.there("a") == []


def test_a_job_goes_on_with_another_key(client: Client) -> None:
    job = Job(client)
    for number, secret in enumerate((b"old", b"new", b"new")):
        sink_steps.commit(Books(client, job.writing, secret), number, job.staged([("a", number)]), 1)
    assert job.there("a") == [0, 1, 2]
    assert Books(client, job.writing, b"new").progress() == 2


def test_progress_and_agreements(client: Client) -> None:
    job = Job(client)
    books = Books(client, job.writing, SECRET)
    assert books.progress() is None
    without_its_rows(job)
    assert books.progress() is None
    for number in range(12):
        commit(client, job.writing, number, job.staged([("a", number)]), 1)
    assert books.progress() == 11
    named = Books(client, Job(client).writing, SECRET)
    assert [named.agree(b"first"), named.agree(b"second")] == [b"first", b"first"]
    with pytest.raises(OthersDecision, match="another API key"):
        Books(client, named.writing, b"another").agree(b"mine")
    forgetful: Any = Forgetful(client, lambda topic: topic == named.writing.decisions)
    with pytest.raises(StagingLost, match="use a new name"):
        Books(forgetful, named.writing, SECRET).agree(b"third")
