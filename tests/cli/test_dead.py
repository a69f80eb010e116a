"""Dead letters by command and by SDK, and the page about consumers, against a real node."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import weft as sdk
from tests.cli.commands import Weft, between_commands
from tests.node.secured import key_for
from tests.up import RunningNode, up
from weft.client import Client, NotAllowed, Received
from weft.client.blocking import Client as BlockingClient

WAIT_S = 60.0


async def give_up(client: Client, topic: str, group: str, *payloads: str) -> None:
    """Publish these, and refuse each until it is a dead letter."""
    for payload in payloads:
        await client.publish(topic, payload, key="k", headers={"trace": "7"})
    async with client.subscribe(
        topic, group=group, start="earliest", commit="manual", max_deliveries=1, retry="set_aside"
    ) as events:
        async for event in events:
            await events.nack(event, reason="\x1b[31mred\x1b[0m")
            if event.payload == payloads[-1].encode():
                break
        while len(await client.dead_letters(group)) < len(payloads):
            await asyncio.sleep(0.01)  # until the node has taken it


@pytest.mark.req("CON-02")
def test_dead_letters_are_listed_shown_sent_again_and_dropped(weft: Weft, node: RunningNode) -> None:
    async def three_are_given_up() -> None:
        async with sdk.connect(node.grpc, insecure=True) as client:
            await give_up(client, "dead.one", "undertaker", "a", "b", "c")

    between_commands(three_are_given_up())
    listed = weft("dead", "ls", "undertaker", "--json", *node.flags).document
    assert [each["payload_base64"] for each in listed] == ["YQ==", "Yg==", "Yw=="]
    first, second, third = (each["event"] for each in listed)
    assert "\x1b" not in weft("dead", "ls", "undertaker", *node.flags).out, "text of others is made visible"
    shown = weft("dead", "show", "undertaker", first, *node.flags).out
    assert "trace" in shown and first in shown
    assert weft("dead", "replay", "undertaker", first, "--json", *node.flags).document == [first]
    assert weft("dead", "drop", "undertaker", second, "--json", *node.flags).document == [second]
    (left,) = weft("dead", "ls", "undertaker", "--json", *node.flags).document
    assert left["event"] == third
    again = weft("sub", "dead.one", "--from", "earliest", "--count", "4", "--json", *node.flags).documents
    assert again[3]["headers"]["weft-replay-of"] == first
    missing = weft("dead", "drop", "undertaker", first, *node.flags)
    assert missing.status != 0 and "no dead letter" in missing.err
    unnamed = weft("dead", "drop", "undertaker", *node.flags)
    assert unnamed.status == 2 and "--all" in unnamed.err
    assert weft("dead", "drop", "undertaker", "--all", "--json", *node.flags).document == [third]
    assert "no dead letters" in weft("dead", "ls", "undertaker", *node.flags).err


@pytest.mark.req("CON-02")
def test_a_group_is_set(weft: Weft, node: RunningNode) -> None:
    told = weft("groups", "set", "set-me", "--max-deliveries", "7", "--retry", "set_aside", *node.flags)
    assert told.status == 0, told.err
    assert "7 deliveries, retries after 1 to 60 s set aside, then to weft.dead.set-me" in told.out
    assert weft("groups", "set", "set-me", "--retry-s", "2", "8", *node.flags).status == 0
    (info,) = weft("groups", "set-me", "--json", *node.flags).document
    assert info["policy"] == {"max_deliveries": 7, "retry_s": [2.0, 8.0], "retry": "set_aside", "dead_letter": ""}
    for wrong in (("--max-deliveries", "0"), ("--retry", "maybe"), ("--dead-letter", "weft.groups.x"), ()):
        assert weft("groups", "set", "set-me", *wrong, *node.flags).status != 0


@pytest.mark.req("CON-01", "CON-02")
def test_without_asyncio(node: RunningNode) -> None:
    with sdk.sync.connect(node.grpc, insecure=True) as client:
        assert isinstance(client, BlockingClient)
        for number in range(6):
            client.publish("dead.blocking", str(number))
        came: list[tuple[bytes, int]] = []
        with client.subscribe("dead.blocking", group="b", start="earliest", commit="manual", retry_s=(0, 0)) as events:
            while len(came) < 7:
                event = events.next(WAIT_S)
                assert event is not None
                came.append((event.payload, event.tries))
                if came[-1] == (b"2", 0):
                    events.nack(event)
                else:
                    events.ack(event)
        assert [payload for payload, _ in came] == [b"0", b"1", b"2", b"2", b"3", b"4", b"5"], "in order"
        assert client.dead_letters("b") == []


@pytest.mark.req("CON-01", "CON-02")
async def test_keys_keep_their_order_while_a_function_fails(node: RunningNode) -> None:
    handled: list[tuple[bytes | None, int]] = []

    done = asyncio.Event()
    failed: set[int] = set()

    async def handle(event: Received) -> None:
        number = int(event.payload)
        await asyncio.sleep(0)
        if number % 7 == 3 and number not in failed:
            failed.add(number)
            raise ValueError(f"{number} is not ready")
        handled.append((event.key, number))
        if len(handled) == 60:
            done.set()

    async with sdk.connect(node.grpc, insecure=True) as client:
        for number in range(60):
            await client.publish("dead.keys", str(number), key=f"k{number % 5}")
        work = client.run(handle, "dead.keys", group="keys", start="earliest", concurrency=4, retry_s=(0.01, 0.05))
        running = asyncio.create_task(work)
        await asyncio.wait_for(done.wait(), WAIT_S)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    for key in {key for key, _ in handled}:
        numbers = [number for each, number in handled if each == key]
        first_times = list(dict.fromkeys(numbers))  # an ack may meet its event, which comes again, on the way
        assert first_times == sorted(set(numbers)), "in order"


@pytest.mark.req("CON-02", "SEC-02")
async def test_letters_are_for_those_who_may_read_their_topics(tmp_path: Path) -> None:
    with up(tmp_path / "data") as node:
        context = node.context
        assert context.tls_root, "of a secured node"
        tls = sdk.TlsFiles(Path(context.tls_root))
        rights = {"publish": ("other.>",), "subscribe": ("other.>",)}
        _, stranger = key_for(tmp_path / "data", time.time(), **rights)
        _, member = key_for(tmp_path / "data", time.time(), **rights, groups=("g", "h"))

        async with asyncio.timeout(WAIT_S), node.client() as client:
            await give_up(client, "orders.new", "g", "x")
            (letter,) = await client.dead_letters("g")
            async with sdk.connect(node.grpc, tls=tls, token=stranger) as other:
                with pytest.raises(NotAllowed, match='use group "g"'):
                    await other.dead_letters("g")
            async with sdk.connect(node.grpc, tls=tls, token=member) as other:
                assert await other.dead_letters("g") == []
                with pytest.raises(sdk.client.BadRequest, match="no dead letter"):
                    await other.drop_dead("g", [letter])
                with pytest.raises(NotAllowed):
                    await other.set_group("g", sdk.client.GroupPolicy())
                with pytest.raises(NotAllowed, match="publish"):
                    await other.subscribe("other.x", group="h", commit="manual", dead_letter="orders.new").opened()
                with pytest.raises(NotAllowed, match="subscribe"):
                    await other.subscribe("weft.dead.g").opened()
            assert await client.dead_letters("g") == [letter]
        assert 'weft_group_dead_letters_total{group="g"} 1.0' in node.metrics()
        node.end_quietly()
