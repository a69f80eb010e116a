"""The doors of other protocols: EXMP clients, EMM devices that sign, a Coaty agent."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Final
from uuid import UUID

from tools.chaos.load import Load
from weft import coaty, exmp
from weft.errors import WeftError
from weft.exmp import Peer
from weft.wire import emm

EXMP_PORT, EMM_PORT = 5041, 4700
KEY_ID: Final = bytes.fromhex("00000001")
CALL_S: Final = 10.0
CHANNEL, NAMESPACE = "load", "chaos"
DEVICE_RATE: Final = 20.0
COATY_RATE: Final = 5.0


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


async def send_datagrams(load: Load) -> None:
    """A device that signs, and tells each thing to one node. Datagrams have no receipts."""
    device = UUID(load.settings.device)
    credentials = emm.Credentials(KEY_ID, hmac_key=bytes.fromhex(load.settings.device_secret))
    hosts = [address.rpartition(":")[0] for address in load.settings.nodes.values()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        async for number in load.paced(DEVICE_RATE):
            mark = load.mark(number)
            draft = emm.draft_event(number, int(time.time()), f"{load.name}.t{number % 4}", mark, node_id=device)
            load.journal.note("tried", id=mark, topic=f"emm.{load.name}.t{number % 4}")
            try:
                door.sendto(emm.build(draft, credentials), (load.chance.choice(hosts), EMM_PORT))
            except OSError as error:
                load.journal.note("failed", id=mark, why=type(error).__name__)


async def speak_coaty(load: Load) -> None:
    """An agent that is connected to the bridges of all nodes. What it says has no receipts."""
    async with coaty.Agent(NAMESPACE, name=load.name, bootstrap=load.settings.coaty, listen=("10.77.1.1", 0)) as agent:
        await agent.ready()
        async for number in load.paced(COATY_RATE):
            mark = load.mark(number)
            said = {"objectId": coaty.new_id(), "coreType": "CoatyObject", "objectType": "chaos.Said", "name": mark}
            load.journal.note("tried", id=mark, topic=f"coaty.{NAMESPACE}.CHN.{CHANNEL}")
            await agent.channel(CHANNEL, said)
