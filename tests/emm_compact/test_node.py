"""Nodes on loopback: rings and stars, neighbours, commands, and the application's side."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

import msgspec
import pytest

from tests.emm_compact.nodes import WAIT_S, epoch_now, mesh, node, take, until
from tests.emm_compact.world import node_id, ring_of, ring_pairs, signer, star_pairs
from tests.transport.http2.stories import on_loop
from tests.transport.udp.plain import plain_socket, see
from weft.emm_compact import ChangeKind, Format, KeyRing, NeighbourChange, NoAnswer, Node, Priority, Settings
from weft.errors import UsageError
from weft.wire.emm_compact import (
    Command,
    EventType,
    Field,
    FieldType,
    Header,
    seal,
)
from weft.wire.reject import Reject

# --- propagation -------------------------------------------------------------------------------------------------


@pytest.mark.req("EMC-11", "EMC-12", "EMC-13")
@pytest.mark.parametrize("pairs", [ring_pairs(5), star_pairs(5)], ids=["ring", "star"])
async def test_five_nodes_get_every_event_exactly_once(pairs: list[tuple[int, int]]) -> None:
    async with mesh(pairs) as nodes:
        for round_ in range(20):
            for number, each in enumerate(nodes):
                assert await each.publish(f"{number}:{round_}") > 0
        everything = {f"{number}:{round_}" for number in range(5) for round_ in range(20)}
        for number, each in enumerate(nodes):
            expected = {text for text in everything if not text.startswith(f"{number}:")}
            texts = [event.text for event in await take(each, len(expected))]
            assert len(texts) == len(expected) and set(texts) == expected
        # Every node sends an event on to all neighbours but the one it has it from. When all these copies and the joins
        # have been received, nothing can come any more.
        joins, copies = 2 * len(pairs), 100 * (2 * len(pairs) - 4)
        await until(lambda: sum(each.figures.received for each in nodes) >= joins + copies)
        assert [each.figures.delivered for each in nodes] == [80] * 5


@on_loop("uvloop", WAIT_S)
async def test_nodes_run_on_uvloop_too() -> None:
    """Weft's own nodes do; its timers and readers are others than those of asyncio."""
    settings = Settings(heartbeat_interval_s=1, rate_per_s_max=500, outbox_max=4)
    async with node(0, settings=settings) as first, node(1) as second:
        await first.join(second.address, timeout_s=WAIT_S)
        for number in range(100):
            await first.publish(str(number))
        assert [event.text for event in await take(second, 100)] == [str(number) for number in range(100)]
        await until(lambda: second.relationships[0].about.heartbeat)


# --- neighbours --------------------------------------------------------------------------------------------------


@pytest.mark.req("EMC-11", "EMC-15")
async def test_neighbours_come_and_go_and_come_back() -> None:
    changes: list[tuple[ChangeKind, int]] = []

    def note(change: NeighbourChange) -> None:
        changes.append((change.kind, change.relationship.uuid.int - 0xA0000))

    settings = Settings(heartbeat_interval_s=1)
    keys = ring_of(range(2))
    async with Node(node_id(0), signer(0), keys, settings=settings, on_change=note) as first:
        second = Node(node_id(1), signer(1), keys, join=[first.address], settings=settings)
        async with second:
            await until(lambda: changes and changes[-1] == (ChangeKind.JOINED, 1))
            port = second.address[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", port))  # so that nobody else gets it meanwhile
            await until(lambda: changes[-1] == (ChangeKind.LOST, 1))
        assert [each.uuid for each in first.known] == [node_id(1)]
        async with Node(node_id(1), signer(1), keys, listen=("127.0.0.1", port), settings=settings) as again:
            await until(lambda: changes[-1] == (ChangeKind.JOINED, 1))  # it was asked; nobody told it whom to join
            await until(lambda: again.relationships)
            assert first.drop(node_id(1))
            assert not first.drop(node_id(1))
            assert changes[-1] == (ChangeKind.DROPPED, 1)
            neighbour = await first.join(again.address, timeout_s=WAIT_S)
            assert neighbour.uuid == node_id(1), "who is asked for is not barred any more"


async def test_nobody_answers() -> None:
    async with node(0) as who:
        with plain_socket("127.0.0.1") as silent, pytest.raises(NoAnswer, match=r"no answer from 127.0.0.1:\d+"):
            await who.join(silent.getsockname(), timeout_s=0.05)
        assert await who.publish("into the void") == 0


async def test_keys_can_be_replaced_while_running() -> None:
    async with (
        Node(node_id(0), signer(0), KeyRing()) as first,
        Node(node_id(1), signer(1), ring_of(range(2))) as second,
    ):
        with pytest.raises(NoAnswer):
            await second.join(first.address, timeout_s=0.05)
        first.use_keys(ring_of(range(2)))
        neighbour = await second.join(first.address, timeout_s=WAIT_S)
        assert neighbour.node_id == node_id(0).bytes


# --- commands ----------------------------------------------------------------------------------------------------


class Level(msgspec.Struct):
    level: str


@pytest.mark.req("EMC-07")
async def test_only_registered_commands_with_sound_parameters_are_obeyed() -> None:
    async with mesh([(0, 1), (1, 2)]) as (first, _, last):
        levels: list[str] = []

        @last.on_command("log-level", msgspec.json.Decoder(Level).decode)
        def set_level(wanted: Level) -> None:
            levels.append(wanted.level)

        with pytest.raises(UsageError, match="there is a handler for that command already"):
            last.on_command("log-level")(set_level)
        await first.command("format-disk")
        await first.command("log-level", b"not json")
        await first.command("log-level", b'{"level": "debug"}')
        await until(lambda: levels)
        assert levels == ["debug"]
        assert last.figures.rejected[Reject.TLV_VALUE] == 1


@pytest.mark.req("EMC-07")
async def test_a_command_of_an_unknown_node_is_neither_obeyed_nor_sent_on() -> None:
    obeyed: list[bytes] = []
    with plain_socket("127.0.0.1") as plain:
        async with mesh([(0, 1)]) as (first, second):
            first.on_command("reboot")(obeyed.append)
            second.on_command("reboot")(obeyed.append)
            for number in (77, 1):  # of no node we know, and signed by it in the name of one we do
                body = Command("reboot", b"", (Field(FieldType.NODE_ID, node_id(number).bytes),))
                packet = seal(Header(EventType.COMMAND, number, epoch_now(), 1), body, signer(77))
                plain.sendto(packet.raw, first.address)
            await until(lambda: first.figures.rejected.total() == 2)
            assert first.figures.rejected == {Reject.UNKNOWN_KEY: 1, Reject.BAD_SIGNATURE: 1}
            await first.publish("marker")
            assert [event.text for event in await take(second, 1)] == ["marker"]
            assert obeyed == []


async def test_a_handler_that_fails_does_not_stop_the_node() -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["message"]))
    async with mesh([(0, 1)]) as (first, second):

        @second.on_command("break")
        def break_(_: bytes) -> None:
            raise RuntimeError("broken")

        await first.command("break")
        await first.publish("still there?")
        assert [event.text for event in await take(second, 1)] == ["still there?"]
        assert problems == ["an EMM-C command's handler failed"]


async def test_an_observer_that_fails_does_not_stop_the_node() -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["message"]))

    def fail(_: NeighbourChange) -> None:
        raise RuntimeError("broken")

    async with Node(node_id(0), signer(0), ring_of(range(2)), on_change=fail) as first, node(1) as second:
        await second.join(first.address, timeout_s=WAIT_S)
        await second.publish("still there?")
        assert [event.text for event in await take(first, 1)] == ["still there?"]
        assert problems == ["an EMM-C node's on_change failed"]


# --- the application's side --------------------------------------------------------------------------------------


async def test_what_an_event_says() -> None:
    async with mesh([(0, 1)]) as (first, second):
        await first.publish("text", priority=Priority.ERROR)
        await first.publish(b"\xff\x00")
        await first.publish('{"t": 21.5}', message_format=Format.JSON, urgent=True)
        events = await take(second, 3)
        assert {(each.message, each.format, each.priority, each.urgent) for each in events} == {
            (b"text", Format.PLAIN_TEXT, Priority.ERROR, False),
            (b"\xff\x00", Format.BINARY, Priority.INFO, False),
            (b'{"t": 21.5}', Format.JSON, Priority.INFO, True),
        }
        assert {each.source for each in events} == {first.address}


async def test_messages_that_do_not_fit_are_the_callers_mistake() -> None:
    async with node(0) as who:
        assert await who.publish(bytes(219)) == 0
        with pytest.raises(UsageError, match=r"payload is too long \(need 256, limit 255\)"):
            await who.publish(bytes(220))
        with pytest.raises(UsageError):
            await who.publish("not json", message_format=Format.JSON)
        for ttl in (0, 256):
            with pytest.raises(UsageError, match="TTL is out of range"):
                await who.publish("x", ttl=ttl)
        assert who.figures.published == 1


async def test_a_publisher_is_held_up_by_the_pace() -> None:
    """More than the outbox holds, at a rate that the clock of the test need not measure: nothing is lost."""
    settings = Settings(rate_per_s_max=2000, outbox_max=8)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(node(0, settings=settings))
        second = await stack.enter_async_context(node(1))
        await first.join(second.address, timeout_s=WAIT_S)
        for number in range(200):
            assert await first.publish(str(number)) == 1
        assert [event.text for event in await take(second, 200)] == [str(number) for number in range(200)]
        assert first.figures.unsent == 0


async def test_a_loop_that_publishes_leaves_time_for_others() -> None:
    async with node(0) as who:
        had_its_turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(had_its_turn.set)
        for _ in range(3):
            assert await who.publish("to nobody") == 0
        assert had_its_turn.is_set()


async def test_closing_ends_what_waits() -> None:
    async with AsyncExitStack() as stack:
        who = await stack.enter_async_context(node(0))
        reading = asyncio.ensure_future(take(who, 1))
        with plain_socket("127.0.0.1") as silent:
            joining = asyncio.ensure_future(who.join(silent.getsockname()))
            assert (await asyncio.to_thread(see, silent)).data, "the join has left, so both are waiting"
            await stack.aclose()
            assert await reading == []
            with pytest.raises(UsageError, match="closed meanwhile"):
                await joining
    with pytest.raises(UsageError, match="use it inside `async with`"):
        await who.publish("x")


async def test_a_node_opens_once_and_again_after_closing() -> None:
    who = node(0)
    async with who:
        with pytest.raises(UsageError, match="open already"):
            await who.__aenter__()
    async with who:
        assert who.relationships == ()


async def test_an_address_that_does_not_exist_closes_the_node_again() -> None:
    who = Node(node_id(0), signer(0), KeyRing(), join=[("::1", 7500)])
    with pytest.raises(UsageError, match="no IPv4 address for '::1'"):
        await who.__aenter__()
    with pytest.raises(UsageError, match="not open"):
        _ = who.address
