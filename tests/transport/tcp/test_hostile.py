"""Peers that mean no good, or do no good: slow, silent, greedy, many. Nothing they do holds more than its bound."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from tests.transport.tcp.raw import PATIENCE_S, Raw, listening, outcome_of, until
from tests.wire.exmp.transcript import HELLO, error, octets, request, response
from weft.limits import MIB
from weft.wire.exmp import End, Settings

PING = "00000004 02 000000"


@pytest.mark.req("EXM-04")
async def test_a_message_that_is_never_finished_ends_with_the_next_ping() -> None:
    """A slow loris: a byte now and then. The pong cannot come before the message is whole."""

    async with listening(Settings(ping_interval_s=0.05, pong_timeout_s=0.2)) as place:
        raw = await place.greeted()
        raw.send("01000000 05 000000 0000000000000001")  # 16 MiB are to follow
        received = bytearray()
        async with asyncio.timeout(PATIENCE_S):
            while not raw.reader.at_eof():
                raw.writer.write(b" ")
                try:
                    received += await asyncio.wait_for(raw.reader.read(1024), 0.02)
                except TimeoutError:
                    continue
        assert received.hex().startswith(PING.replace(" ", ""))
        assert b"no pong in time" in received
        assert place.users[0].heard == []


async def test_a_hello_in_pieces_is_a_hello_and_half_of_one_is_not() -> None:
    async with listening() as place:
        raw = await place.raw()
        for octet in octets(HELLO):
            raw.writer.write(bytes([octet]))
            await raw.writer.drain()
            await asyncio.sleep(0)
        await raw.expect(HELLO)
        raw.send(request(1))
        await raw.expect(response(1))
    async with listening(Settings(handshake_timeout_s=0.05)) as place:
        raw = await place.raw()
        raw.send("00000008 00")
        await raw.expect(HELLO)
        await raw.expect(error(0, "no hello in time"))


@pytest.mark.req("EXM-06")
async def test_a_client_that_never_reads_is_not_read_from_and_then_cut_off() -> None:
    """It would send 256 MiB of requests whose answers are as long. Little of that is taken, and not kept for long."""
    body = '{"op":"a","data":{"text":"' + "x" * 60_000 + '"}}'
    wanted = 256 * MIB

    async with listening(Settings(ping_interval_s=None, pong_timeout_s=0.5)) as place:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", place.port))
        sent = 0

        async def flood() -> None:
            nonlocal sent
            await loop.sock_sendall(sock, octets(HELLO))
            number = 0
            while sent < wanted:
                number += 1
                head = (12 + len(body)).to_bytes(4, "big") + b"\x05\0\0\0" + number.to_bytes(8, "big")
                await loop.sock_sendall(sock, head + body.encode())
                sent += len(head) + len(body)

        flooding = asyncio.create_task(flood())
        await until(lambda: place.users and place.users[0].link.is_congested)
        async with asyncio.timeout(PATIENCE_S):
            await place.users[0].link.gone.wait()  # nothing moved for pong_timeout_s
        with pytest.raises(OSError):
            await flooding
        sock.close()
        assert sent < 32 * MIB
        taken = len(place.users[0].heard) * len(body)
        assert taken < 32 * MIB
        end = place.users[0].end
        assert end is not None and end.end in (End.EOF, End.TRUNCATED)


async def test_a_thousand_idle_connections_cost_little_and_all_are_served() -> None:
    count = 1000
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with listening() as place:
        raws: list[Raw] = []
        for _ in range(count // 50):
            raws += await asyncio.gather(*(place.greeted() for _ in range(50)))
        assert place.listener.connections == count
        for raw in raws:
            raw.send(request(1))
        for raw in raws:
            await raw.expect(response(1))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < 128 * 1024  # the test's own thousand streams included


@pytest.mark.req("EXM-06")
async def test_no_more_is_read_while_as_many_as_may_be_wait_for_answers() -> None:
    async with listening(Settings(pending_max=8, ping_interval_s=None)) as place:
        raw = await place.greeted()
        await until(lambda: place.users)
        user = place.users[0]
        answer = user.requested
        user.requested = user.heard.extend  # type: ignore[method-assign,assignment]  # answers none
        raw.send("\n".join(request(number) for number in range(1, 1001)))
        await until(lambda: len(user.heard) >= 8)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(user.heard) == 8
        user.requested = answer  # type: ignore[method-assign]
        for each in list(user.heard):
            user.link.respond(each.id, outcome_of(each))
        for number in range(1, 1001):
            await raw.expect(response(number))
