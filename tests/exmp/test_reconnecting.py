"""Connections that break: who is told what, what is sent again, and how the next one is made (EXM-10)."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.transport.held_port import held_port
from weft import exmp
from weft.errors import UsageError
from weft.exmp import JsonObject

PATIENCE_S = 30.0


class Hasty(Random):
    """Chance that makes every pause as short as can be, and counts them."""

    asked = 0

    def random(self) -> float:
        self.asked += 1
        return 0.99


async def echo(data: JsonObject) -> JsonObject:
    return data


@pytest.mark.req("EXM-10")
async def test_a_client_finds_its_server_again() -> None:
    connected: list[str] = []

    async def on_connected(peer: exmp.Peer) -> None:
        connected.append(peer.address)

    with held_port() as port:
        server = exmp.serve({"$echo": echo}, port=port)
        await server.open()
        client = exmp.connect(str(server.address), on_connected=on_connected, chance=Hasty())
        async with client:
            assert await client.call("$echo", {"n": 1}) == {"n": 1}
            await server.close()
            # Nothing was sent yet, so this one waits without doubt for the next server.
            waiting = asyncio.create_task(client.call("$echo", {"n": 2}))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            async with exmp.serve({"$echo": echo}, *server.address):
                assert await waiting == {"n": 2}
                assert len(connected) == 2  # where subscriptions are made again


@pytest.mark.req("EXM-10")
async def test_a_call_that_was_under_way_is_in_doubt_unless_it_may_be_done_twice() -> None:
    begun: list[int] = []
    hang = True

    async def sometimes(data: JsonObject) -> JsonObject:
        begun.append(data["n"])
        if hang:
            await asyncio.Event().wait()
        return data

    with held_port() as port:
        server = exmp.serve({"sometimes": sometimes}, port=port)
        await server.open()
        async with exmp.connect(str(server.address), chance=Hasty()) as client:
            doubtful = asyncio.create_task(client.call("sometimes", {"n": 1}))
            repeated = asyncio.create_task(client.call("sometimes", {"n": 2}, retry=True))
            while not begun:
                await asyncio.sleep(0.001)
            await server.close()
            with pytest.raises(exmp.LinkLost, match="the other side said bye"):
                await doubtful
            hang = False
            async with exmp.serve({"sometimes": sometimes}, *server.address):
                assert await repeated == {"n": 2}
            assert begun == [1, 2]


@pytest.mark.req("EXM-10")
async def test_a_client_that_starts_before_its_server_tries_until_it_is_there() -> None:
    """With pauses that grow and have chance in them (tests/transport/test_backoff.py)."""

    chance = Hasty()
    with held_port() as port:
        place = ("127.0.0.1", port)  # nobody is there yet
        client = exmp.connect(f"127.0.0.1:{port}", connect_timeout_s=PATIENCE_S, chance=chance)
        opening = asyncio.create_task(client.open())
        while chance.asked < 3:
            await asyncio.sleep(0.001)
        assert not opening.done()
        async with exmp.serve({"$echo": echo}, *place):
            await opening
            assert await client.call("$echo", {"n": 1}) == {"n": 1}
            await client.close()


async def test_without_patience_the_first_failure_is_the_answer() -> None:
    with pytest.raises(exmp.Unreachable, match=r"cannot connect to 127\.0\.0\.1 port 1:"):
        await exmp.connect("127.0.0.1:1", connect_timeout_s=0.0).open()


async def test_somebody_who_does_not_speak_exmp_is_no_server() -> None:
    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak_http, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(exmp.LinkLost, match="no handshake: the other side broke the protocol"):
        await exmp.connect(f"127.0.0.1:{port}", connect_timeout_s=0.0).open()
    server.close()


async def test_a_client_is_opened_once_and_of_no_use_when_closed() -> None:
    async with exmp.serve({"$echo": echo}, port=0) as server:
        client = exmp.connect(str(server.address))
        async with client:
            with pytest.raises(UsageError, match="opened once"):
                await client.open()
        await client.close()  # again does no harm
        with pytest.raises(UsageError, match="the client is closed"):
            await client.call("$echo")
        with pytest.raises(UsageError, match="opened once"):
            await client.open()


async def test_whoever_waits_for_a_connection_is_told_when_the_client_is_closed() -> None:
    async with asyncio.timeout(PATIENCE_S):
        server = exmp.serve({"$echo": echo}, port=0)
        await server.open()
        async with exmp.connect(str(server.address)) as client:
            await server.close()
            waiting = asyncio.create_task(client.call("$echo"))
            while client.peer is not None:
                await asyncio.sleep(0.001)
        with pytest.raises((UsageError, exmp.LinkLost)):
            await waiting


async def test_what_on_connected_raises_first_is_the_callers() -> None:
    async def refuse(peer: exmp.Peer) -> None:
        raise exmp.Failure("no_key", "who are you?")

    async with exmp.serve({"$echo": echo}, port=0) as server:
        with pytest.raises(exmp.Failure, match="who are you"):
            await exmp.connect(str(server.address), on_connected=refuse).open()


async def test_a_port_that_is_taken_is_named() -> None:
    async with exmp.serve({}, port=0) as server:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {server.address.port}"):
            await exmp.serve({}, *server.address).open()
