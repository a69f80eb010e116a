"""Executors: ranges of streams from the nodes that have them."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from tests.spark.meshes import OLD_EVENTS, fill, fill_old, let_retention_pass
from weft.client import FetchRange, Options, PositionExpired, PositionUnknown, ReceivedBatch, Unavailable
from weft.client.blocking import Client
from weft.errors import WeftError
from weft.limits import OFFSET_MAX
from weft.model import Epoch
from weft.spark import connection as connection_room
from weft.spark import reading as reading_room
from weft.spark.connection import Connection
from weft.spark.offsets import Place
from weft.spark.options import COLUMNS
from weft.spark.planning import DataLoss, Range
from weft.spark.reading import Reading, goes_on
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh

NOWHERE = "127.0.0.1:1"


def reading(address: str, *, fail_on_data_loss: bool = True, columns: tuple[str, ...] = COLUMNS) -> Reading:
    return Reading(Connection((address,), insecure=True), columns, fail_on_data_loss)


def whole(client: Client, topic: str, *addresses: str) -> Range:
    (found,) = client.positions(topic)
    return Range(Place(found.stream, found.epoch), 0, found.latest_offset, addresses, 1)


def values(using: Reading, *ranges: Range) -> list[bytes]:
    return [value for rows in using.rows(ranges) for value in rows.column("value").to_pylist()]


@pytest.mark.req("SPK-01")
def test_ranges_are_read_exactly(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    for topic in ("read.a", "read.b"):
        fill(client, topic, [f"{topic}{number}" for number in range(50)])
    one, other = (whole(client, topic, address) for topic in ("read.a", "read.b"))
    using = pickle.loads(pickle.dumps(reading(address)))
    part = Range(one.place, 10, 20, (address,), 1)
    wanted = [b"read.a%d" % number for number in range(10, 20)] + [b"read.b%d" % number for number in range(50)]
    assert values(using, part, other) == wanted
    (rows,) = using.rows([part, other])
    assert rows.column("offset").to_pylist() == [*range(10, 20), *range(50)]
    assert values(using, Range(one.place, 5, 5, (address,), 1)) == []
    (narrow,) = reading(address, columns=("offset", "topic")).rows([part])
    assert narrow.schema.names == ["offset", "topic"]
    assert narrow.column("offset").to_pylist() == list(range(10, 20))


def test_the_next_node_is_asked_when_one_does_not_answer_or_lacks_it(
    client: Client, mesh: BlockingMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_room, "CLIENT_OPTIONS", Options(connect_timeout_s=0.2))
    monkeypatch.setattr(reading_room, "SPARK_UNAVAILABLE_S", 0.1)
    monkeypatch.setattr(reading_room, "RETRY_S", 0.01)
    fill(client, "turn.a", map(str, range(5)))
    with blocking_mesh(["lone"]) as other:
        found = whole(client, "turn.a", NOWHERE, other.address("lone"), mesh.address("n0"))
        assert values(reading(NOWHERE), found) == [b"0", b"1", b"2", b"3", b"4"]
        with pytest.raises(Unavailable, match="no node answers"):  # the second may have had it, so it is not lost
            values(reading(NOWHERE, fail_on_data_loss=False), whole(client, "turn.a", NOWHERE, other.address("lone")))
        Connection((other.address("lone"),), insecure=True).client().close()


def test_what_retention_took_meanwhile_ends_the_task_or_is_passed_over(
    mesh: BlockingMesh, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    address = mesh.address("n0")
    fill_old(client, "late.a")
    fill(client, "late.a", ["new"])
    planned = whole(client, "late.a", address)
    taken = let_retention_pass(mesh, client, "n0", "late.a")
    assert 0 < taken <= OLD_EVENTS
    with pytest.raises(DataLoss, match=rf"late.a@n0/0:e\d+ offsets 0 to {taken - 1} \({taken} events\)"):
        values(reading(address), planned)
    with caplog.at_level(logging.WARNING, "weft.spark"):
        found = values(reading(address, fail_on_data_loss=False), planned)
    assert len(found) == planned.end - taken
    assert found[-1] == b"new"
    assert f"offsets 0 to {taken - 1}" in caplog.text


def test_a_stream_that_vanished_is_lost_to_its_end(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    fill(client, "gone.a", "12")
    found = whole(client, "gone.a", address)
    gone = Range(Place(found.place.stream, Epoch(found.place.epoch + 1)), 0, 5, (address,), 1)
    with pytest.raises(DataLoss, match="offsets 0 to 4"):
        values(reading(address), gone)
    assert values(reading(address, fail_on_data_loss=False), gone, found) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        (PositionExpired("x", earliest="7", latest="9"), 7),
        (PositionExpired("x"), OFFSET_MAX),
        (PositionExpired("x", earliest="-7"), OFFSET_MAX),
        (PositionExpired("x", earliest="9" * 30), OFFSET_MAX),
        (PositionUnknown("x", earliest="7"), OFFSET_MAX),
    ],
)
def test_where_events_go_on_is_what_the_node_says(failure: WeftError, wanted: int) -> None:
    assert goes_on(failure) == wanted


@pytest.mark.req("SPK-01")
def test_a_node_that_dies_in_mid_fetch_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only node that has the stream; Spark on local[*] would not try the task again."""
    monkeypatch.setattr(connection_room, "CLIENT_OPTIONS", Options(connect_timeout_s=0.2, call_timeout_s=0.5))
    with blocking_mesh(1) as lone:
        with lone.client() as client:
            fill(client, "dies.a", map(str, range(10)))
            planned = whole(client, "dies.a", lone.address("n0"))
        lone.kill("n0")
        waits: list[float] = []

        def wait(seconds: float) -> None:
            """Where it would rest before it tries again, the node comes back."""
            waits.append(seconds)
            lone.restart("n0")

        monkeypatch.setattr(reading_room, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
        assert values(reading(lone.address("n0")), planned) == [b"%d" % number for number in range(10)]
        assert len(waits) == 1
        Connection((lone.address("n0"),), insecure=True).client().close()


@pytest.mark.req("SPK-01")
def test_many_streams_are_one_call(mesh: BlockingMesh, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    address = mesh.address("n0")
    topics = [f"many.t{number}" for number in range(300)]
    for topic in topics:
        fill(client, topic, [topic])
    calls: list[int] = []
    asked = Client.fetch_ranges

    def counted(
        self: Client, ranges: Sequence[FetchRange], columns: Sequence[str] = ()
    ) -> Iterator[list[ReceivedBatch]]:
        calls.append(len(ranges))
        return asked(self, ranges, columns)

    monkeypatch.setattr(Client, "fetch_ranges", counted)
    ranges = [whole(client, topic, address) for topic in topics]
    assert values(reading(address), *ranges) == [topic.encode() for topic in topics]
    assert values(reading(address, columns=("value",)), *ranges) == [topic.encode() for topic in topics]
    assert calls == [300, 300]


@pytest.mark.req("SPK-01")
def test_what_is_gone_between_other_streams_is_passed_over_alone(mesh: BlockingMesh, client: Client) -> None:
    address = mesh.address("n0")
    for topic in ("amid.a", "amid.b", "amid.c"):
        fill(client, topic, [f"{topic}{number}" for number in range(3)])
    one, two, three = (whole(client, f"amid.{name}", address) for name in "abc")
    gone = Range(Place(two.place.stream, Epoch(two.place.epoch + 1)), 0, 5, (address,), 1)
    wanted = [f"amid.{name}{number}".encode() for name in "abc" for number in range(3)]
    assert values(reading(address, fail_on_data_loss=False), one, gone, two, gone, three) == wanted
    with pytest.raises(DataLoss, match=r"amid\.b"):
        values(reading(address), one, gone, three)


@pytest.mark.req("SPK-01")
def test_a_node_that_lacks_one_of_several_is_asked_for_the_others(mesh: BlockingMesh, client: Client) -> None:
    """Both nodes have some of it; each is asked for all, and gives what it has."""
    with blocking_mesh(["lone"]) as other, other.client() as there:
        addresses = (mesh.address("n0"), other.address("lone"))
        fill(client, "shared.a", "12")
        fill(there, "shared.b", "34")
        fill(client, "shared.c", "56")
        parts = [whole(client, "shared.a", *addresses), whole(there, "shared.b", *addresses)]
        parts.append(whole(client, "shared.c", *addresses))
        assert values(reading(addresses[0]), *parts) == [b"1", b"2", b"3", b"4", b"5", b"6"]
        Connection((other.address("lone"),), insecure=True).client().close()
