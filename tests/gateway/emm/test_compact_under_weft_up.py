"""EMM-C nodes at both sides of a gateway, as users start it: what one says reaches the other, and the mesh."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from tests.gateway.emm.devices import KEY_ID
from tests.gateway.emm.stories import now_s
from tests.gateway.emm.test_under_weft_up import client_of, events
from tests.transport.udp.plain import Seen, plain_socket, see
from tests.up import COMMAND, RunningNode, up
from weft.emm_compact import ChangeKind, Event, KeyRing, NeighbourChange, Node, Signer
from weft.gateway.emm.identity import FRESH_BYTES, settle_identity
from weft.security import Secret
from weft.security.files import private_directory
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group, fingerprint
from weft.wire.emm_compact import (
    Body,
    Command,
    EventType,
    Field,
    FieldType,
    Format,
    Header,
    Heartbeat,
    Join,
    Notification,
    Priority,
    SupportedTypes,
    decode_untrusted,
    seal,
)

WAIT_S: Final = 60.0
OLD, NEW = b"o" * 32, b"n" * 32
TRACE: Final = UUID(int=99)
CONFIG: Final = """
[gateway.emm]
udp = "127.0.0.1:0"
heartbeat_interval_s = 1

[[gateway.emm.out]]
pattern = "alarms.>"
protocol = "emm-c"
"""


@dataclass(frozen=True)
class Party:
    """A node beside the gateway."""

    number: int

    @property
    def node_id(self) -> UUID:
        return UUID(int=0xB0000 + self.number)

    def signer(self, group_key: bytes = OLD) -> Signer:
        return Signer(group_key, bytes([self.number]) * 32)


A, B, C = (Party(number) for number in (1, 2, 3))


def prepared(directory: Path) -> tuple[Path, tuple[str, str]]:
    """A data directory that knows all parties and the old group key."""
    data = private_directory(directory / "a")
    settle_identity(data, bytes(range(FRESH_BYTES)))
    add_group(data, Secret(OLD))
    for party in (A, B, C):
        add_device(data, DeviceKey(party.node_id, KEY_ID, KeyKind.ED25519, Secret(party.signer().public_key)))
    file = directory / "weft.toml"
    file.write_text(CONFIG)
    return data, ("--config", str(file))


def ring_of(data: Path, *group_keys: bytes, gateway_keys: tuple[bytes, ...] = ()) -> KeyRing:
    """What a party believes: the other parties, and the gateway."""
    identity = settle_identity(data, b"")
    by_node_id: dict[bytes, tuple[bytes, ...]] = {
        party.node_id.bytes: (party.signer().public_key,) for party in (A, B, C)
    }
    by_node_id[identity.node_id.bytes] = gateway_keys or (identity.public_key,)
    return KeyRing(group_keys or (OLD,), by_node_id)


def weft(*arguments: object) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def address_of(node: RunningNode) -> tuple[str, int]:
    host, _, port = node.gateway("emm").rpartition(":")
    return host, int(port)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def next_event(node: Node) -> Event:
    return await anext(aiter(node.events()))


@pytest.mark.req("EMC-05", "EMC-07", "EMC-11", "EMC-12")
async def test_events_pass_the_gateway_and_reach_the_mesh_while_keys_change(tmp_path: Path) -> None:
    data, flags = prepared(tmp_path)
    changes: list[NeighbourChange] = []
    obeyed: list[bytes] = []

    async def change_keys(node: RunningNode, a: Node, b: Node, stack: AsyncExitStack) -> None:
        """A new group key, and a new key of the gateway's own, as people do it; nobody loses anybody."""
        shown = json.loads(weft("emm", "identity", "--data", data, "--prepare-key", "--json"))
        following = bytes.fromhex(shown["public_key"])
        both = ring_of(data, OLD, NEW, gateway_keys=(settle_identity(data, b"").public_key, following))
        add = ("trust", "add", "--data", data, "--group", NEW.hex())
        await asyncio.to_thread(weft, *add, "--believe-only")
        for each, party in ((a, A), (b, B)):
            each.use_keys(both, party.signer(NEW))
        await asyncio.to_thread(weft, *add)
        await asyncio.to_thread(weft, "emm", "identity", "--data", data, "--use-next-key")
        assert settle_identity(data, b"").public_key == following
        # Somebody who believes nothing but the gateway's new key hears its answer as soon as that signs.
        alone = ring_of(data, NEW, gateway_keys=(following,))
        signed_only = replace(alone, group_keys=())
        c = await stack.enter_async_context(Node(C.node_id, C.signer(NEW), signed_only, on_change=changes.append))
        await c.join(address_of(node), WAIT_S)
        c.use_keys(alone)
        await asyncio.to_thread(weft, "trust", "remove", "--data", data, "--group", fingerprint(Secret(OLD)))
        await a.publish("with the new key")
        assert [(await next_event(each)).text for each in (b, c)] == ["with the new key"] * 2
        told = [each["event"] for each in node.logged() if each["event"].startswith("emm_c_neighbour")]
        assert told == ["emm_c_neighbour_joined"] * 3
        assert [change.kind for change in changes] == [ChangeKind.JOINED] * 3

    with up(data, *flags) as node:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(client_of(node))
            a, b = [
                await stack.enter_async_context(
                    Node(party.node_id, party.signer(), ring_of(data), on_change=changes.append)
                )
                for party in (A, B)
            ]
            b.on_command("mark")(obeyed.append)
            for each in (a, b):
                await each.join(address_of(node), WAIT_S)
            await a.publish("stays here", ttl=1)
            await a.publish("pump 3 runs dry", priority=Priority.WARNING, ttl=9)
            passed = await next_event(b)
            assert (passed.text, passed.ttl, passed.source) == ("pump 3 runs dry", 8, address_of(node))
            await a.command("mark", b"x", trace_id=TRACE)
            await until(lambda: obeyed == [b"x"])
            found = {str(event.topic): event for event in await events(client, "emm.>", 3)}
            assert found["emm.notification.info"].payload == b"stays here"
            assert found["emm.notification.warning"].payload == b"pump 3 runs dry"
            command = found["emm.command.mark"]
            assert (command.payload, command.key) == (b"x", str(A.node_id).encode())
            assert command.headers is not None
            assert (command.headers["emm-verdict"], command.headers["emm-trace-id"]) == ("sender", str(TRACE))
            await change_keys(node, a, b, stack)
            metrics = await asyncio.to_thread(node.metrics)
            assert 'weft_datagrams_total{fate="ended"} 1.0' in metrics
            assert 'weft_datagrams_total{fate="relayed"} 3.0' in metrics
            await asyncio.to_thread(node.end_quietly)


# --- seen from outside, by sockets that read IP headers themselves -------------------------------------------------

_numbers = count(1)


def packet(body: Body, who: Party, *, urgent: bool = False) -> bytes:
    header = Header(body.TYPE, 7, now_s() % 65536, next(_numbers), urgent)
    return seal(header, body, who.signer()).raw


def join_of(who: Party, supported: SupportedTypes = SupportedTypes(0b1111)) -> bytes:  # noqa: B008 (a number)
    return packet(Join(who.node_id.bytes, supported, 10, 60, b""), who)


@contextmanager
def marked(made: socket.socket, option: int, value: int) -> Iterator[None]:
    before = made.getsockopt(socket.IPPROTO_IP, option)
    made.setsockopt(socket.IPPROTO_IP, option, value)
    yield
    made.setsockopt(socket.IPPROTO_IP, option, before)


def next_of(made: socket.socket, *kinds: EventType) -> Seen:
    """The next datagram of these types; others come in between."""
    while True:
        seen = see(made)
        if decode_untrusted(seen.data).header.type in kinds:
            return seen


def counted(node: RunningNode, series: str) -> float:
    (line,) = [line for line in node.metrics().splitlines() if line.startswith(f"{series} ")]
    return float(line.split()[-1])


@pytest.mark.req("EMC-09", "EMC-12", "EMC-14")
def test_on_the_wire_packets_are_unchanged_and_marks_are_heeded(tmp_path: Path) -> None:
    data, flags = prepared(tmp_path)
    note = Notification(Priority.ERROR, Format.PLAIN_TEXT, b"hot")
    command = Command("stop", b"", (Field(FieldType.NODE_ID, A.node_id.bytes),))
    events_only = (EventType.NOTIFICATION, EventType.COMMAND)
    with (
        up(data, *flags) as node,
        plain_socket("127.0.0.1") as a,
        plain_socket("127.0.0.1") as b,
        plain_socket("127.0.0.1") as c,
    ):
        gateway = address_of(node)
        for made, join in ((a, join_of(A)), (b, join_of(B)), (c, join_of(C, SupportedTypes.COMMAND))):
            made.sendto(join, gateway)
            next_of(made, EventType.JOIN)
        first, second = packet(note, A), packet(command, A, urgent=True)
        for data_sent in (first, first, second):
            with marked(a, socket.IP_TTL, 9):
                a.sendto(data_sent, gateway)
        seen = [next_of(b, *events_only) for _ in range(2)]
        assert {each.data: (each.ttl, each.tos) for each in seen} == {
            first: (8, 0x30 << 2 | 0b10),
            second: (8, 0x38 << 2 | 0b10),
        }, "once each, as they were, with one less to live"
        assert next_of(c, *events_only).data == second, "it takes no notifications"
        assert (counted(node, "weft_emm_c_neighbours"), counted(node, "weft_emm_c_slowdowns_total")) == (3, 0)
        last = packet(note, B)
        with marked(b, socket.IP_TOS, 0b11):  # as if a router had marked it
            b.sendto(last, gateway)
        assert next_of(a, *events_only).data == last, "its own did not come back"
        assert counted(node, "weft_emm_c_slowdowns_total") == 1, "the way to B, and no other"
        while True:
            body = decode_untrusted(next_of(b, EventType.HEARTBEAT).data).body
            assert isinstance(body, Heartbeat)
            if body.rate.ecn == 0b11:
                break
        node.end_quietly()


@pytest.mark.req("EMC-10", "EMC-14")
def test_what_expires_while_it_waits_for_its_turn_is_counted(tmp_path: Path) -> None:
    """Twenty packets leave in a second; these are worth sending for a second or two."""
    data, flags = prepared(tmp_path)
    file = tmp_path / "weft.toml"
    file.write_text(CONFIG.replace("heartbeat_interval_s = 1", "rate_per_s_max = 20"))
    hint = Field(FieldType.EXPIRY_HINT, b"\x01")
    command = Command("stop", b"", (Field(FieldType.NODE_ID, A.node_id.bytes), hint))
    with up(data, *flags) as node, plain_socket("127.0.0.1") as a, plain_socket("127.0.0.1") as b:
        gateway = address_of(node)
        b.sendto(join_of(B), gateway)
        next_of(b, EventType.JOIN)
        while not counted(node, 'weft_datagrams_total{fate="expired"}'):
            for _ in range(100):
                a.sendto(packet(command, A), gateway)
        node.end_quietly()


def test_a_group_key_of_others_is_not_passed_on(tmp_path: Path) -> None:
    """Nobody can make the gateway send what it does not believe."""
    data, flags = prepared(tmp_path)
    note = Notification(Priority.INFO, Format.PLAIN_TEXT, b"x")
    with up(data, *flags) as node, plain_socket("127.0.0.1") as a, plain_socket("127.0.0.1") as b:
        gateway = address_of(node)
        b.sendto(join_of(B), gateway)
        next_of(b, EventType.JOIN)
        forged = seal(Header(note.TYPE, 1, now_s() % 65536, 0), note, replace(A.signer(), group_key=NEW))
        good = packet(note, A)
        a.sendto(forged.raw, gateway)
        a.sendto(good, gateway)
        assert next_of(b, EventType.NOTIFICATION).data == good
        node.end_quietly()
