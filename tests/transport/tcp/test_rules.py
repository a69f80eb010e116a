"""Every rule of the ledger on a real socket: bytes there, bytes back, and who closes (EXM-01 to EXM-09)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.transport.tcp.raw import QUIET, Raw, listening, until
from tests.wire.exmp.transcript import HELLO, error, request, response
from weft.doors import Doorkeeper, DoorLimits
from weft.wire.exmp import Closed, End, Settings

PING = "00000004 02 000000"
PONG = "00000004 03 000000"
BYE = "00000004 01 000000"


@asynccontextmanager
async def talk(settings: Settings = QUIET) -> AsyncIterator[Raw]:
    """A connection on which nothing has been said. Its ``ended``, afterwards, is how our side ended it."""
    async with listening(settings) as place:
        raw = await place.raw()
        yield raw
        await raw.close()
        await until(lambda: place.users[0].end is not None)
        raw.ended = place.users[0].end


@pytest.mark.req("EXM-01", "EXM-02", "EXM-09")
async def test_hello_a_request_a_response_and_bye() -> None:
    async with talk() as raw:
        await raw.expect(HELLO)  # both sides begin by themselves
        raw.send(HELLO)
        raw.send(request(1, '{"op":"$echo","data":{"n":1}}'))
        await raw.expect(response(1, '{"status":"success","data":{"n":1}}'))
        raw.send(BYE)
        await raw.expect_end()
    assert raw.ended == Closed(End.BYE_RECEIVED)


@pytest.mark.req("EXM-01")
@pytest.mark.parametrize("length", ["ffffffff", "01000001"])
async def test_a_length_over_the_limit_is_refused_on_the_length_alone(length: str) -> None:
    """Also 4 GiB: not a byte of it is waited for."""

    async with talk() as raw:
        await raw.greet()
        raw.send(length)
        size = int(length, 16)
        await raw.expect(error(1, f"message is too long (length {size}, limit 16777216)"))
        await raw.expect_end()
    end = raw.ended
    assert end is not None and (end.end, end.code) == (End.ERROR_SENT, 1)


@pytest.mark.req("EXM-02")
async def test_who_says_no_hello_is_sent_away_in_time() -> None:
    async with talk(Settings(handshake_timeout_s=0.05)) as raw:
        await raw.expect(HELLO)
        await raw.expect(error(0, "no hello in time"))
        await raw.expect_end()
    end = raw.ended
    assert end is not None and end.end is End.TIMEOUT


@pytest.mark.req("EXM-02")
async def test_a_version_over_ours_is_error_1() -> None:
    async with talk() as raw:
        await raw.expect(HELLO)
        raw.send("00000008 00 000000 02 000000")
        await raw.expect(error(1, "unsupported version (version 2, highest 1)"))
        await raw.expect_end()


@pytest.mark.req("EXM-02")
@pytest.mark.parametrize(("early", "name"), [(PING, "ping"), (request(1), "request")])
async def test_nothing_comes_before_the_hello(early: str, name: str) -> None:
    async with talk() as raw:
        await raw.expect(HELLO)
        raw.send(early)
        await raw.expect(error(1, f"unexpected {name} (state handshake)"))
        await raw.expect_end()


@pytest.mark.req("EXM-03")
async def test_who_reports_an_error_is_closed_on() -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send(error(0, "disk on fire"))
        await raw.expect_end()
    assert raw.ended == Closed(End.ERROR_RECEIVED, 0, "disk on fire")


@pytest.mark.req("EXM-03")
async def test_a_port_that_closes_says_bye_to_everybody() -> None:
    async with listening() as place:
        raws = [await place.greeted() for _ in range(3)]
        closing = asyncio.create_task(place.listener.close())
        for raw in raws:
            await raw.expect(BYE)
            await raw.expect_end()
            await raw.close()
        await closing
        assert place.listener.connections == 0
        assert [user.end for user in place.users] == [Closed(End.BYE_SENT)] * 3


@pytest.mark.req("EXM-04")
async def test_a_ping_is_answered() -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send(PING)
        await raw.expect(PONG)
    assert raw.ended == Closed(End.EOF, None, "the stream ended without a bye")


@pytest.mark.req("EXM-04")
async def test_pings_come_at_intervals_and_stay_one_at_a_time() -> None:
    async with talk(Settings(ping_interval_s=0.03)) as raw:
        await raw.greet()
        for _ in range(3):
            await raw.expect(PING)
            raw.send(request(1 + _))
            await raw.expect(response(1 + _))  # nothing else came: the next ping waits for its pong
            raw.send(PONG)


@pytest.mark.req("EXM-04")
async def test_who_does_not_answer_a_ping_is_gone() -> None:
    async with talk(Settings(ping_interval_s=0.02, pong_timeout_s=0.1)) as raw:
        await raw.greet()
        await raw.expect(PING)
        await raw.expect(error(0, "no pong in time"))
        await raw.expect_end()
    end = raw.ended
    assert end is not None and end.end is End.TIMEOUT


@pytest.mark.req("EXM-05")
async def test_ids_are_not_zero_and_not_repeated() -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send(request(0))
        await raw.expect(error(3, "the id of a request is zero (at 4)"))
        await raw.expect_end()

    async with talk() as raw:
        await raw.greet()
        raw.send("\n".join(map(request, (10, 7, 10, 11))))
        await raw.expect(response(10) + "\n" + response(7))
        await raw.expect(error(3, "this request id was used before (id 10)"))
        await raw.expect_end()


@pytest.mark.req("EXM-06")
async def test_ten_thousand_requests_in_one_go_are_answered_in_order() -> None:
    count = 10_000

    async with listening() as place:
        raw = await place.greeted()

        async def send() -> None:
            for first in range(1, count, 1000):
                raw.send("\n".join(request(number, '{"op":"x"}') for number in range(first, first + 1000)))
                await raw.writer.drain()

        sending = asyncio.create_task(send())
        for number in range(1, count + 1):
            await raw.expect(response(number))
        await sending
        assert [each.id for each in place.users[0].heard] == list(range(1, count + 1))
        assert place.users[0].reads < count / 4  # what comes together is handed over together


@pytest.mark.req("EXM-07")
async def test_a_response_nobody_waits_for_is_error_3() -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send(response(1))
        await raw.expect(error(3, "no request waits for this response (id 1)"))
        await raw.expect_end()


@pytest.mark.req("EXM-08")
async def test_one_connection_too_many_is_told_so_with_error_2() -> None:
    async with listening(connections_max=1) as place:
        first = await place.greeted()
        second = await place.raw()
        await second.expect(HELLO)
        await second.expect(error(2, "too many connections, the limit is 1: try again later"))
        await second.expect_end()
        await second.close()
        first.send(request(1))
        await first.expect(response(1))
        await first.close()
        await until(lambda: place.listener.connections == 0)
        third = await place.greeted()
        third.send(request(1))
        await third.expect(response(1))


@pytest.mark.req("EXM-08")
async def test_an_unknown_type_is_error_1() -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send("00000004 09 000000")
        await raw.expect(error(1, "unknown message type (at 0, type 9)"))
        await raw.expect_end()


@pytest.mark.req("EXM-08")
@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        ("{", 1, "Input data was truncated"),
        ("[]", 4, "Expected `object`, got `array`"),
        ('{"data":{}}', 4, "Object missing required field `op`"),
        ('{"op":1}', 4, "Expected `str`, got `int` - at `$.op`"),
    ],
)
async def test_a_body_that_is_no_request_ends_the_connection(body: str, code: int, reason: str) -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send("\n".join((request(1), request(2, body), request(3))))
        await raw.expect(response(1) + "\n" + error(code, reason))
        await raw.expect_end()
    assert raw.ended == Closed(End.ERROR_SENT, code, reason)


@pytest.mark.req("EXM-08", "EXM-09")
@pytest.mark.parametrize("body", ['{"op":"a","data":[]}', '{"op":"a","data":{"x":"\\udc00"}}'])
async def test_data_that_does_not_fit_is_answered_with_a_failure(body: str) -> None:
    async with talk() as raw:
        await raw.greet()
        raw.send(request(1, body))
        raw.send(request(2, '{"op":"a","data":{"x":true}}'))
        await raw.expect(response(1, '{"status":"failure","code":"invalid","description":"unreadable"}'))
        await raw.expect(response(2, '{"status":"success","data":{"x":true}}'))


@pytest.mark.req("SEC-04")
async def test_strangers_make_room_and_who_is_known_stays() -> None:
    keeper = Doorkeeper()
    door = keeper.door("exmp", DoorLimits(2, 2, 2, 2, grace_s=0.0))
    async with listening(door=door) as place:
        known = await place.greeted()
        place.users[0].link.prove()
        silent = await place.raw()
        await silent.expect(HELLO)
        third = await place.greeted()
        await silent.expect_end()
        await until(lambda: door.connections == 2)
        place.users[2].link.prove()
        refused = await place.raw()
        await refused.expect_end()
        for raw in (known, third):
            raw.send(request(1))
            await raw.expect(response(1))
        assert keeper.turned_away == {("exmp", "address"): 2}
        await known.close()
        await until(lambda: door.connections == 1)
