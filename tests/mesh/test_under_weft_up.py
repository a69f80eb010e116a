"""Two nodes as users start them: ``weft up``, secured, the second enrolled with a token of the first."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

import weft
from tests.mesh.watching import until
from tests.node.secured import key_for, token_from
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.client import Connecting

WAIT_S: Final = 60.0


@contextmanager
def pair(
    directory: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[RunningNode, RunningNode]]:
    """``flags`` are the first one's, ``environ`` is for both."""
    first, second = directory / "a", directory / "b"
    with up(first, "--node-id", "a", "--ca-listen", "127.0.0.1:0", *flags, environ=environ) as a:
        enrolling = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
        with up(second, *enrolling, stdin=token_from(first, "b"), environ=environ) as b:
            yield a, b


def client_of_second(directory: Path, a: RunningNode, b: RunningNode) -> Connecting:
    context = a.context
    assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
    tls = weft.TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
    _, key = key_for(directory / "b", time.time(), publish=(">",), subscribe=(">",))
    return weft.connect(b.grpc, tls=tls, token=key)


@pytest.mark.req("SEC-01", "SEC-02")
async def test_what_is_published_at_one_node_arrives_at_the_other(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        async with asyncio.timeout(WAIT_S), a.client() as at_a, client_of_second(tmp_path, a, b) as at_b:
            for topic, writer, reader in (("from.a", at_a, at_b), ("from.b", at_b, at_a)):
                async with reader.subscribe(topic, start="earliest") as events:
                    await writer.publish(topic, b"21")
                    assert (await anext(aiter(events))).payload == b"21"
        b.end_quietly()
        a.end_quietly()


def lives(node: RunningNode, member: str) -> list[tuple[str, int]]:
    """What a node has seen of another: liveness and incarnation, in order."""
    seen = (line for line in node.logged() if line["event"] == "member_changed" and line["member"] == member)
    return [(line["liveness"], line["incarnation"]) for line in seen]


@pytest.mark.req("PL-03", "PL-07", "OPS-02")
async def test_who_is_asked_to_stop_says_goodbye_and_may_come_back(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        await until(lambda: len(lives(a, "b")) == 1)
        assert b.end(signal.SIGTERM) == 0, b.said()
        await until(lambda: len(lives(a, "b")) == 2)
        with up(tmp_path / "b", "--peer", a.grpc, "--ca", f"https://{a.ready['ca']}") as again:
            await until(lambda: len(lives(a, "b")) == 3)
            (first, first_life), (goodbye, same_life), (back, second_life) = lives(a, "b")
            assert (first, goodbye, back) == ("alive", "left", "alive")
            assert first_life == same_life < second_life
            assert again.end(signal.SIGINT) == 0, again.said()
            await until(lambda: lives(a, "b")[3:] == [("left", second_life)])
        a.end_quietly()


@pytest.mark.req("PL-03", "PL-07", "OPS-02")
async def test_a_goodbye_reaches_those_who_have_no_link_to_who_leaves(tmp_path: Path) -> None:
    """They cannot see that a link ended: they believe what the node itself has signed."""
    with pair(tmp_path) as (a, b):
        enrolling = ("--peer", b.grpc, "--ca", f"https://{a.ready['ca']}", "--token", "-")
        with up(tmp_path / "c", *enrolling, stdin=token_from(tmp_path / "a", "c")) as c:
            await until(lambda: len(lives(a, "c")) == 1)
            assert c.end(signal.SIGTERM) == 0, c.said()
            await until(lambda: len(lives(a, "c")) == 2)
            assert [liveness for liveness, _ in lives(a, "c")] == ["alive", "left"]
        assert [line["peer"] for line in a.logged() if line["event"] == "peer_connected"] == ["b"]
        b.end_quietly()
        a.end_quietly()


@pytest.mark.req("OPS-02", "PL-03")
async def test_weft_leave_ends_a_node_that_says_goodbye(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        await until(lambda: bool(lives(b, "a")))
        environ = {**os.environ, "WEFT_CONFIG_DIR": str(a.config)}
        asked = subprocess.run(
            [*COMMAND, "leave"], capture_output=True, text=True, timeout=END_TIMEOUT_S, env=environ, check=False
        )
        assert (asked.returncode, asked.stdout) == (0, "a leaves the mesh: it finishes what is under way and stops\n")
        assert a.process.wait(END_TIMEOUT_S) == 0, a.said()
        await until(lambda: lives(b, "a")[-1][0] == "left")
        assert [liveness for liveness, _ in lives(b, "a")] == ["alive", "left"]
        b.end_quietly()


def in_vain(node: RunningNode) -> float:
    lines = node.metrics().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("weft_events_in_vain_total "))


@pytest.mark.req("MSH-02")
@pytest.mark.parametrize(("filter_bytes_max", "least", "most"), [(32_768, 0, 5), (0, 100, 100)])
async def test_more_subscriptions_than_can_be_told_one_by_one_bring_only_what_they_want(
    tmp_path: Path, filter_bytes_max: int, least: int, most: int
) -> None:
    """300 topics are told as a filter, which others of the same shape do not fit. Without it, by its setting, wider
    patterns are told, and all that they bring in vain is counted."""

    with pair(tmp_path, environ={"WEFT_LINK_INTEREST_FILTER_BYTES_MAX": str(filter_bytes_max)}) as (a, b):
        async with (
            asyncio.timeout(WAIT_S),
            AsyncExitStack() as opened,
            a.client() as at_a,
            client_of_second(tmp_path, a, b) as at_b,
        ):
            readers = [await opened.enter_async_context(at_b.subscribe(f"plant.d{number}.t")) for number in range(300)]
            for reader in readers:
                await reader.opened()
            while not any("plant." in each for peer in await at_a.peers() for each in peer.interest):
                await asyncio.sleep(0.01)  # until gossip has told it
            for number in (*range(300, 400), *range(200, 300)):  # first what nobody wants
                await at_a.publish(f"plant.d{number}.t", str(number))
            got = [(await anext(aiter(reader))).payload for reader in readers[200:]]
            assert got == [str(number).encode() for number in range(200, 300)]
        await until(lambda: in_vain(b) >= least)
        assert in_vain(b) <= most, "of a hundred that nobody there wants, and a filter that errs once in 300 times"
        b.end_quietly()
        a.end_quietly()


@pytest.mark.req("PL-02")
async def test_who_is_further_behind_than_the_queue_is_long_catches_up(tmp_path: Path) -> None:
    """The node sends all of it at once, drops what the queue does not hold, and sends it again from the log."""
    count = 40
    file = tmp_path / "weft.toml"
    file.write_text('[link]\nqueue_frames_max = 4\nsend_timeout_s = 0\ndrop_policy = "oldest"\n')

    with pair(tmp_path, "--config", str(file)) as (a, b):
        async with asyncio.timeout(WAIT_S), a.client() as at_a, client_of_second(tmp_path, a, b) as at_b:
            for number in range(count):
                await at_a.publish("plant.temp", str(number))
            async with at_b.subscribe("plant.temp", start="earliest") as events:
                got = [(await anext(aiter(events))).payload for _ in range(count)]
            assert got == [str(number).encode() for number in range(count)]
        assert any(line["event"] == "frames_dropped" for line in a.logged())
        b.end_quietly()
        a.end_quietly()
