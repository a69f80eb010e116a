"""``weft.exmp``: calls both ways, handlers, failures, bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from weft import exmp
from weft.errors import UsageError
from weft.exmp import Client, JsonObject, Server, Settings

PATIENCE_S = 30.0


async def echo(data: JsonObject) -> JsonObject:
    return data


async def refuse(data: JsonObject) -> JsonObject:
    raise exmp.Failure("too_late", "the train has left", {"minutes": 3})


async def break_down(data: JsonObject) -> JsonObject:
    raise KeyError("a mistake of the handler")


async def answer_nonsense(data: JsonObject) -> JsonObject:
    return {"set": {1, 2}}.copy() | {"object": object()}


HANDLERS: Mapping[str, exmp.Handler] = {
    "$echo": echo,
    "refuse": refuse,
    "break": break_down,
    "nonsense": answer_nonsense,
}


@asynccontextmanager
async def both(
    *,
    handlers: Mapping[str, exmp.Handler] = HANDLERS,
    own: Mapping[str, exmp.Handler] | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[tuple[Client, Server]]:
    async with asyncio.timeout(PATIENCE_S), exmp.serve(handlers, port=0) as server:
        chosen = settings or Settings()
        async with exmp.connect(str(server.address), handlers=own, settings=chosen) as client:
            yield client, server


@pytest.mark.req("EXM-09")
async def test_a_call_gets_the_answer_of_the_handler() -> None:
    async with both() as (client, server):
        assert await client.call("$echo", {"n": 1, "deep": {"list": [True, None, "ü"]}}) == {
            "n": 1,
            "deep": {"list": [True, None, "ü"]},
        }
        assert await client.call("$echo") == {}
        assert server.connections == 1


@pytest.mark.req("EXM-09")
async def test_failures_have_codes_and_descriptions(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL, "weft.exmp"):
        async with both() as (client, _):
            with pytest.raises(exmp.Failure) as refused:
                await client.call("refuse")
            failure = refused.value
            assert (failure.code, failure.description, failure.data) == (
                "too_late",
                "the train has left",
                {"minutes": 3},
            )
            assert str(failure) == "the train has left [too_late]"
            for op, code in (
                ("nothing", "unknown_operation"),
                ("break", "internal_error"),
                ("nonsense", "internal_error"),
            ):
                with pytest.raises(exmp.Failure) as refused:
                    await client.call(op)
                assert refused.value.code == code
            assert await client.call("$echo", {"still": "there"}) == {"still": "there"}


@pytest.mark.req("EXM-06")
async def test_calls_may_be_pipelined_and_are_worked_on_in_order() -> None:
    begun: list[int] = []
    under_way = 0

    async def slowly(data: JsonObject) -> JsonObject:
        nonlocal under_way
        under_way += 1
        assert under_way == 1, "one at a time"
        begun.append(data["n"])
        await asyncio.sleep(0)
        under_way -= 1
        return data

    async with both(handlers={"slowly": slowly}) as (client, _server):
        answers = await asyncio.gather(*(client.call("slowly", {"n": number}) for number in range(3000)))
        assert [answer and answer["n"] for answer in answers] == list(range(3000))
        assert begun == list(range(3000))


async def test_more_calls_than_may_be_pending_wait_for_their_turn() -> None:
    async with both(settings=Settings(pending_max=2)) as (client, _server):
        answers = await asyncio.gather(*(client.call("$echo", {"n": number}) for number in range(50)))
        assert len(answers) == 50


@pytest.mark.req("EXM-11")
async def test_both_sides_may_ask() -> None:
    async def name(data: JsonObject) -> JsonObject:
        return {"name": "client"}

    async def ask_back(data: JsonObject) -> JsonObject | None:
        return await exmp.current_peer().call("name")

    async with both(handlers={"ask_back": ask_back}, own={"name": name}) as (client, _server):
        assert await client.call("ask_back") == {"name": "client"}
    with pytest.raises(UsageError, match="only inside a handler"):
        exmp.current_peer()


async def test_a_handler_may_end_its_own_connection() -> None:
    async def leave(data: JsonObject) -> None:
        await exmp.current_peer().close()

    async with both(handlers={"leave": leave}) as (client, _server):
        with pytest.raises(exmp.LinkLost, match="the other side said bye"):
            await client.call("leave")


async def test_a_server_may_call_whoever_connects() -> None:
    done = asyncio.Event()
    asked: list[str] = []

    async def greet(peer: exmp.Peer) -> None:
        assert await peer.call("name") == {"name": "x"}
        done.set()

    async def name(data: JsonObject) -> JsonObject:
        return {"name": "x"}

    async with (
        asyncio.timeout(PATIENCE_S),
        exmp.serve(
            {"$echo": echo}, port=0, on_connected=greet, on_request=lambda peer, op, data: asked.append(op)
        ) as server,
        exmp.connect(str(server.address), handlers={"name": name}) as client,
    ):
        await done.wait()
        await client.call("$echo")
        assert asked == ["$echo"]


async def test_a_call_has_a_timeout_of_its_own_and_the_connection_lives_on() -> None:
    async def wait_long(data: JsonObject) -> JsonObject:
        if data.get("long"):
            await asyncio.sleep(0.2)
        return {}

    async with both(handlers={"wait": wait_long}) as (client, _server):
        with pytest.raises(TimeoutError):
            await client.call("wait", {"long": True}, timeout_s=0.01)
        assert await client.call("wait") == {}


async def test_a_call_that_cannot_be_written_is_refused_before_it_is_sent() -> None:
    async with both(settings=Settings(message_bytes_max=1024)) as (client, _server):
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            await client.call("$echo", {"object": object()})
        with pytest.raises(UsageError, match="too long"):
            await client.call("$echo", {"text": "x" * 2000})
        assert await client.call("$echo") == {}


async def test_an_address_without_a_port_means_the_protocols_own() -> None:
    assert str(exmp.connect("127.0.0.1").address) == "127.0.0.1:5040"
    assert str(exmp.connect("[::1]", tls=exmp.client_context(None)).address) == "[::1]:5041"
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        exmp.connect("not an address")
