"""The doors of other protocols: EXMP clients, devices that speak EMM and EMM-C by UDP and QUIC, a Coaty agent."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tools.chaos.load import Ends, Load, step_over
from weft import coaty, emm_compact, exmp
from weft.emm import Node
from weft.errors import WeftError
from weft.exmp import Peer
from weft.wire import emm

EXMP_PORT, EMM_PORT, QUIC_PORT = 5041, 4700, 4701
CLIENTS: Final = "10.77.1.1"  # where devices and agents are, as nodes see them
KEY_ID: Final = bytes.fromhex("00000001")
CALL_S: Final = 10.0
CHANNEL, NAMESPACE = "load", "chaos"
COATY_SHARE: Final = 0.2  # of the rate of other publishers
VISIT: Final = 200  # events to one node, before the next has its turn
NPM_AGENT: Final = Path(__file__).parents[2] / "tests" / "interop" / "coaty" / "coaty_peer.js"


async def publish_exmp(load: Load) -> None:
    """One request at a time. One whose answer does not come is not sent again: nobody knows whether it was done."""
    numbers = load.paced(load.settings.rate / 2)
    addresses = [address.rpartition(":")[0] for address in load.settings.nodes.values()]
    turn = 0
    tls = ssl.create_default_context(cafile=load.settings.root)

    async def authenticate(peer: Peer) -> None:
        await peer.call("authenticate", {"key": load.settings.token})

    while not load.over.is_set():
        host = addresses[turn % len(addresses)]
        turn += 1
        try:
            async with exmp.connect(
                f"{host}:{EXMP_PORT}", tls=tls, server_name=host, on_connected=authenticate, connect_timeout_s=5.0
            ) as client:
                async for number in numbers:
                    if not await _call(load, client, number):
                        break
                    if number % 500 == 499:
                        break  # another node has its turn
                else:
                    return
        except (WeftError, OSError, TimeoutError) as error:
            load.journal.note("unreachable", host=host, why=type(error).__name__)
            await load.rest(1.0)


async def _call(load: Load, client: exmp.Client, number: int) -> bool:
    """Whether the connection seems good."""
    mark, topic = load.mark(number), load.topic(number)
    load.journal.note("tried", id=mark, topic=topic)
    try:
        async with asyncio.timeout(CALL_S):
            answer = await client.call("publish", {"topic": topic, "payload": mark})
    except (WeftError, OSError, TimeoutError) as error:
        load.journal.note("failed", id=mark, why=type(error).__name__)
        return False
    if answer is None:
        raise TypeError("publish is answered with a receipt")
    place = [answer["topic"], answer["origin"], answer["partition"], answer["epoch"], answer["offset"]]
    load.journal.note("acked", id=mark, place=place, copies=answer["copies"])
    return True


async def listen_exmp(load: Load) -> None:
    """A subscription to everything, at one node until it breaks, then at the next, where the last one ended."""
    addresses = [address.rpartition(":")[0] for address in load.settings.nodes.values()]
    tls = ssl.create_default_context(cafile=load.settings.root)
    ends: Ends = {}
    turn = 1
    while not load.over.is_set():
        host = addresses[turn % len(addresses)]
        turn += 1
        try:
            await _listen(load, host, tls, ends)
        except (WeftError, OSError, TimeoutError) as error:
            load.journal.note("unreachable", host=host, why=type(error).__name__)
            await load.rest(1.0)


async def _listen(load: Load, host: str, tls: ssl.SSLContext, ends: Ends) -> None:
    """Until it breaks."""
    broken = asyncio.Event()

    async def event(data: Any) -> None:
        stream = (data["topic"], data["origin"], data["partition"], data["epoch"])
        load.journal.note("delivered", place=[*stream, data["offset"]], text=data.get("payload", ""))
        ends[stream] = data["offset"] + 1

    async def ended(data: Any) -> None:
        load.journal.note("subscription_ended", host=host, why=str(data))
        step_over(ends, str(data))
        broken.set()

    async def subscribe(peer: Peer) -> None:
        if broken.is_set():
            return
        await peer.call("authenticate", {"key": load.settings.token})
        places = [f"{topic}@{origin}/{part}:e{epoch}:{end}" for (topic, origin, part, epoch), end in ends.items()]
        start: dict[str, Any] = {"start_positions": places} if places else {"start": "earliest"}
        await peer.call("subscribe", {"pattern": "chaos.>", **start})

    handlers = {"event": event, "ended": ended}
    client = exmp.connect(
        f"{host}:{EXMP_PORT}",
        tls=tls,
        server_name=host,
        handlers=handlers,
        on_connected=subscribe,
        connect_timeout_s=5.0,
    )
    async with client:
        peer = client.peer
        if peer is None:
            return
        over, lost = asyncio.create_task(load.over.wait()), asyncio.create_task(peer.wait_closed())
        told = asyncio.create_task(broken.wait())
        await asyncio.wait((over, lost, told), return_when=asyncio.FIRST_COMPLETED)
        broken.set()  # this client dials again by itself: no second subscription here
        for task in (over, lost, told):
            task.cancel()


async def send_over_quic(load: Load) -> None:
    """The same device by QUIC, as a neighbour of one node after the other."""
    trust = emm.TrustStore()
    for gateway in load.settings.gateways:
        trust.add_public_key(UUID(gateway.node_id), bytes.fromhex(gateway.key_id), bytes.fromhex(gateway.public_key))
    credentials = emm.Credentials(KEY_ID, hmac_key=bytes.fromhex(load.settings.device_secret))
    root = Path(load.settings.root).read_bytes()

    async def visit(host: str, numbers: AsyncIterator[int], turn: int) -> None:
        async with Node(UUID(load.settings.device), credentials, trust, listen=None) as node:
            await node.join_quic((host, QUIC_PORT), root)
            load.journal.note("joined", host=host)
            async for number in numbers:
                name, mark = f"{load.name}.t{number % 4}", load.mark(number)
                load.journal.note("tried", id=mark, topic=f"emm.{name}")
                if await node.publish(name, mark) == 0 or number % VISIT == VISIT - 1:
                    return

    await _visit_all(load, visit)


async def speak_emm_compact(load: Load) -> None:
    """A node of the EMM-C mesh, by UDP and QUIC in turn."""
    group, seed = bytes.fromhex(load.settings.group_key), bytes.fromhex(load.settings.device_seed)
    known = {UUID(each.node_id).bytes: (bytes.fromhex(each.public_key),) for each in load.settings.gateways}
    root = Path(load.settings.root).read_bytes()

    async def visit(host: str, numbers: AsyncIterator[int], turn: int) -> None:
        signer, keys = emm_compact.Signer(group, seed), emm_compact.KeyRing((group,), known)
        async with emm_compact.Node(UUID(load.settings.device), signer, keys, listen=(CLIENTS, 0)) as node:
            await (node.join_quic((host, QUIC_PORT), root) if turn % 2 else node.join((host, EMM_PORT)))
            load.journal.note("joined", host=host, by="quic" if turn % 2 else "udp")
            async for number in numbers:
                load.journal.note("tried", id=load.mark(number), topic="emm.notification.info")
                if await node.publish(load.mark(number)) == 0 or number % VISIT == VISIT - 1:
                    return

    await _visit_all(load, visit)


async def _visit_all(load: Load, visit: Callable[[str, AsyncIterator[int], int], Awaitable[None]]) -> None:
    """One node after the other, until the load is over. Two neighbours would both publish what they take."""
    hosts = [address.rpartition(":")[0] for address in load.settings.nodes.values()]
    numbers = load.paced(load.settings.rate / 2)
    turn = 2
    while not load.over.is_set():
        try:
            await visit(hosts[turn % len(hosts)], numbers, turn)
        except (WeftError, OSError, TimeoutError) as error:
            load.journal.note(
                "unreachable", host=hosts[turn % len(hosts)], why=f"{type(error).__name__}: {error}"[:200]
            )
            await load.rest(1.0)
        turn += 1


async def send_datagrams(load: Load) -> None:
    """A device that signs, and tells each thing to one node. Datagrams have no receipts."""
    device = UUID(load.settings.device)
    credentials = emm.Credentials(KEY_ID, hmac_key=bytes.fromhex(load.settings.device_secret))
    hosts = [address.rpartition(":")[0] for address in load.settings.nodes.values()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        async for number in load.paced(load.settings.rate):
            mark = load.mark(number)
            draft = emm.draft_event(number, int(time.time()), f"{load.name}.t{number % 4}", mark, node_id=device)
            load.journal.note("tried", id=mark, topic=f"emm.{load.name}.t{number % 4}")
            try:
                door.sendto(emm.build(draft, credentials), (load.chance.choice(hosts), EMM_PORT))
            except OSError as error:
                load.journal.note("failed", id=mark, why=type(error).__name__)


async def speak_coaty(load: Load) -> None:
    """An agent that is connected to the bridges of all nodes. What it says has no receipts."""
    async with coaty.Agent(NAMESPACE, name=load.name, bootstrap=load.settings.coaty, listen=(CLIENTS, 0)) as agent:
        await agent.ready()
        async for number in load.paced(load.settings.rate * COATY_SHARE):
            mark = load.mark(number)
            said = {"objectId": coaty.new_id(), "coreType": "CoatyObject", "objectType": "chaos.Said", "name": mark}
            load.journal.note("tried", id=mark, topic=f"coaty.{NAMESPACE}.CHN.{CHANNEL}")
            await agent.channel(CHANNEL, said)


def has_npm_agent() -> bool:
    return shutil.which("node") is not None and (NPM_AGENT.parent / "node_modules" / "@coaty").is_dir()


async def speak_npm_coaty(load: Load) -> None:
    """The reference agent, of npm's packages, does the same."""
    words = ["--name", load.name, "--ns", NAMESPACE, "--listen", f"/ip4/{CLIENTS}/tcp/0", "--log", "0"]
    for address in load.settings.coaty:
        words += ["--bootstrap", address]
    log = Path(load.settings.place) / "logs" / f"{load.name}.js"
    with log.open("ab") as said:
        agent = await asyncio.create_subprocess_exec(
            *("node", str(NPM_AGENT), *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=said,
            stderr=said,
            env={**os.environ, "NODE_NO_WARNINGS": "1"},
        )
    assert agent.stdin is not None
    async for number in load.paced(load.settings.rate * COATY_SHARE):
        mark = load.mark(number)
        said_object = {"objectId": coaty.new_id(), "coreType": "CoatyObject", "objectType": "chaos.Said", "name": mark}
        load.journal.note("tried", id=mark, topic=f"coaty.{NAMESPACE}.CHN.{CHANNEL}")
        agent.stdin.write(json.dumps({"cmd": "channel", "id": CHANNEL, "object": said_object}).encode() + b"\n")
        await agent.stdin.drain()
    agent.stdin.write(b'{"cmd":"exit"}\n')
    await agent.stdin.drain()
    async with asyncio.timeout(30):
        await agent.wait()
