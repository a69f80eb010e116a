"""Nodes are asked together: members that nobody named, nodes that do not answer, keys that were replaced."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.meshes import fill, until
from tests.up import COMMAND, END_TIMEOUT_S, up
from weft.client import NotAllowed, Options, TlsFiles, Unauthenticated, Unavailable
from weft.client.blocking import connect
from weft.client.connecting import tls_files
from weft.spark import surveyor as room
from weft.spark.connection import Connection
from weft.spark.options import Members, parse_options
from weft.spark.selection import parse_selection
from weft.spark.source import BatchReader, StreamReader
from weft.spark.surveyor import MemberUnread, Question, Surveyor
from weft.testing import blocking_mesh

ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait for nodes that it has killed."""
    monkeypatch.setattr(room, "ASKING", Options(connect_timeout_s=0.5, call_timeout_s=60, backoff_s_max=0.1))
    monkeypatch.setattr(room, "SPARK_UNAVAILABLE_S", 0.1)
    monkeypatch.setattr(room, "RETRY_S", 0.05)


def surveyor(*addresses: str, subscribe: str = "plant.>", members: Members = Members.REACHABLE) -> Surveyor:
    return Surveyor(Connection(addresses, insecure=True), parse_selection("subscribe", subscribe), members=members)


@contextmanager
def mute() -> Iterator[str]:
    """An address that takes connections, as far as the kernel does, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.req("SPK-01")
def test_members_are_learned_from_any_node() -> None:
    with blocking_mesh(3) as three:
        for name in ("n0", "n1", "n2"):
            with three.client(name) as client:
                fill(client, f"plant.{name}", "12")
        with closing(surveyor(three.address("n1"))) as asking:
            survey = asking.look(complete=True)
        assert {str(place.stream.topic) for place in survey.held} == {"plant.n0", "plant.n1", "plant.n2"}
        assert not survey.unread()
        with closing(surveyor(three.address("n1"), members=Members.NAMED)) as asking:
            named = asking.look(complete=True)
        assert {str(place.stream.topic) for place in named.held} == {"plant.n1"}
        three.kill("n2")
        with closing(surveyor(three.address("n1"), members=Members.ALL)) as asking:
            with pytest.raises(MemberUnread, match=r"n2 \(.*\) cannot be asked: .*members=reachable.*members=named"):
                asking.look(complete=True)
            assert {str(place.stream.topic) for place in asking.look(complete=False).held} == {"plant.n0", "plant.n1"}


@pytest.mark.req("SPK-01")
def test_a_node_that_is_silent_is_waited_for_once_and_counts_when_it_is_back() -> None:
    with blocking_mesh(2, links=()) as two, mute() as silent:
        for name in ("n0", "n1"):
            with two.client(name) as client:
                fill(client, f"plant.{name}", "1")
        with closing(surveyor(two.address("n0"), two.address("n1"), silent)) as asking:
            first = asking.look(complete=False, patient=False)
            assert set(first.silent) == {silent}
            under_way = asking._nodes[silent].ask(asking._pool, Question(None, False))
            assert not under_way.done()
            again = asking.look(complete=False, patient=False)
            assert (len(again.held), not under_way.done()) == (2, True), "the others are not held up"
            two.kill("n1")
            until(lambda: set(asking.look(complete=False, patient=False).silent) == {silent, two.address("n1")})
            two.restart("n1")
            until(lambda: len(asking.look(complete=False, patient=False).held) == 2)


def test_what_a_node_said_when_nobody_waited_is_asked_again() -> None:
    """It may be an hour old by the time of the next trigger."""
    with blocking_mesh(2, links=()) as two, two.client("n0") as one, two.client("n1") as other:
        fill(one, "plant.a", "1")
        fill(other, "plant.b", "1")
        with closing(surveyor(two.address("n0"), two.address("n1"))) as asking:
            asking.look(complete=True)
            late = asking._nodes[two.address("n1")].ask(asking._pool, Question(None, False))
            until(late.done)
            fill(other, "plant.b", "23")
            held = asking.look(complete=False, patient=False).held
        assert {place.stream.topic: each.latest for place, each in held.items()} == {"plant.a": 1, "plant.b": 3}


def test_nobody_answers() -> None:
    with closing(surveyor("127.0.0.1:1")) as asking, pytest.raises(Unavailable, match="none of the job's nodes"):
        asking.look(complete=False)


def test_some_of_what_is_wanted_is_there(caplog: pytest.LogCaptureFixture) -> None:
    with blocking_mesh(1) as lone, lone.client() as client:
        for topic in ("t1", "t2", "t3"):
            fill(client, topic, "1")
        given = {"nodes": lone.address("n0"), "insecure": "true"}
        with caplog.at_level("WARNING", "weft.spark"):
            planned = BatchReader(parse_options({**given, "subscribe": "t1,t2,t9,x.>"})).partitions()
        assert {each.place.stream.topic for part in planned for each in part.ranges} == {"t1", "t2"}  # type: ignore[attr-defined]
        said = [each.getMessage() for each in caplog.records if each.name == "weft.spark"]
        assert said == ["no topic of the mesh matches t9; x.> yet"]


@pytest.mark.req("SPK-01")
def test_a_key_that_was_replaced_is_taken_up_by_a_running_query(tmp_path: Path) -> None:
    """As docs/security.md has it: a new key, its file replaced, then the old one is revoked."""
    data = tmp_path / "a"

    def command(*arguments: str) -> str:
        given = [*COMMAND, "keys", *arguments, "--data", str(data)]
        return subprocess.run(given, capture_output=True, text=True, check=True, timeout=END_TIMEOUT_S).stdout

    def new_key() -> tuple[str, str]:
        made = json.loads(command("create", "--name", "job", "--subscribe", "plant.>", "--json"))
        return made["id"], made["key"]

    with up(data, "--node-id", "a") as node:
        files = tls_files(node.context)
        assert files is not None
        (old_id, old), (_, new) = new_key(), new_key()
        token = tmp_path / "token"
        token.write_text(old)
        places = {"tlsRoot": files.root, "tlsCertificate": files.certificate, "tlsKey": files.key}
        options = parse_options(
            {
                **{name: str(path) for name, path in places.items()},
                "nodes": node.grpc,
                "subscribe": "plant.>",
                "startingOffsets": "earliest",
                "token": f"file:{token}",
            }
        )
        until(lambda: _knows(node.grpc, files, old) and _knows(node.grpc, files, new))
        with closing(_Stopped(StreamReader(options))) as query:
            with connect([node.grpc], token=node.context.token, tls=files) as client:
                fill(client, "plant.a", "12")
                start = query.reader.latestOffset(query.reader.initialOffset(), ALL)
                token.write_text(new)
                command("revoke", old_id)
                until(lambda: not _knows(node.grpc, files, old))
                fill(client, "plant.a", "345")
            end = query.reader.latestOffset(start, ALL)
            (part,) = query.reader.partitions(start, end)
            rows = [value for batch in query.reader.read(part) for value in batch.column("value").to_pylist()]
        assert rows == [b"3", b"4", b"5"]


class _Stopped:
    """A reader that is stopped at the end."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader
        self.close = reader.stop


def _knows(address: str, files: TlsFiles, key: str) -> bool:
    with connect([address], token=key, tls=files, learns=False) as client:
        try:
            client.positions("plant.>")
        except (Unauthenticated, NotAllowed):
            return False
        return True
