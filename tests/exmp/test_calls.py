"""``weft.exmp``: calls both ways, handlers, failures, bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

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


def with_both(
    story: Callable[[Client, Server], Awaitable[None]],
    *,
    handlers: Mapping[str, exmp.Handler] = HANDLERS,
    own: Mapping[str, exmp.Handler] | None = None,
    settings: Settings | None = None,
) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), exmp.serve(handlers, port=0) as server:
            chosen = settings or Settings()
            async with exmp.connect(str(server.address), handlers=own, settings=chosen) as client:
                await story(client, server)

    asyncio.run(run())


@pytest.mark.req("EXM-09")
def test_a_call_gets_the_answer_of_the_handler() -> None:
    async def story(client: Client, server: Server) -> None:
        assert await client.call("$echo", {"n": 1, "deep": {"list": [True, None, "ü"]}}) == {
            "n": 1,
            "deep": {"list": [True, None, "ü"]},
        }
        assert await client.call("$echo") == {}
        assert server.connections == 1

    with_both(story)


@pytest.mark.req("EXM-09")
def test_failures_have_codes_and_descriptions(caplog: pytest.LogCaptureFixture) -> None:
    async def story(client: Client, server: Server) -> None:
        with pytest.raises(exmp.Failure) as refused:
            await client.call("refuse")
        failure = refused.value
        assert (failure.code, failure.description, failure.data) == ("too_late", "the train has left", {"minutes": 3})
        assert str(failure) == "the train has left [too_late]"
        for op, code in (("nothing", "unknown_operation"), ("break", "internal_error"), ("nonsense", "internal_error")):
            with pytest.raises(exmp.Failure) as refused:
                await client.call(op)
            assert refused.value.code == code
        assert await client.call("$echo", {"still": "there"}) == {"still": "there"}

    with caplog.at_level(logging.CRITICAL, "weft.exmp"):
        with_both(story)


@pytest.mark.req("EXM-06")
def test_calls_may_be_pipelined_and_are_worked_on_in_order() -> None:
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

    async def story(client: Client, server: Server) -> None:
        answers = await asyncio.gather(*(client.call("slowly", {"n": number}) for number in range(3000)))
        assert [answer and answer["n"] for answer in answers] == list(range(3000))
        assert begun == list(range(3000))

    with_both(story, handlers={"slowly": slowly})


def test_more_calls_than_may_be_pending_wait_for_their_turn() -> None:
    async def story(client: Client, server: Server) -> None:
        answers = await asyncio.gather(*(client.call("$echo", {"n": number}) for number in range(50)))
        assert len(answers) == 50

    with_both(story, settings=Settings(pending_max=2))


@pytest.mark.req("EXM-11")
def test_both_sides_may_ask() -> None:
    async def name(data: JsonObject) -> JsonObject:
        return {"name": "client"}

    async def ask_back(data: JsonObject) -> JsonObject | None:
        return await exmp.current_peer().call("name")

    async def story(client: Client, server: Server) -> None:
        assert await client.call("ask_back") == {"name": "client"}

    with_both(story, handlers={"ask_back": ask_back}, own={"name": name})
    with pytest.raises(UsageError, match="only inside a handler"):
        exmp.current_peer()


def test_a_handler_may_end_its_own_connection() -> None:
    async def leave(data: JsonObject) -> None:
        await exmp.current_peer().close()

    async def story(client: Client, server: Server) -> None:
        with pytest.raises(exmp.LinkLost, match="the other side said bye"):
            await client.call("leave")

    with_both(story, handlers={"leave": leave})


def test_a_server_may_call_whoever_connects() -> None:
    async def run() -> None:
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

    asyncio.run(run())


def test_a_call_has_a_timeout_of_its_own_and_the_connection_lives_on() -> None:
    async def wait_long(data: JsonObject) -> JsonObject:
        if data.get("long"):
            await asyncio.sleep(0.2)
        return {}

    async def story(client: Client, server: Server) -> None:
        with pytest.raises(TimeoutError):
            await client.call("wait", {"long": True}, timeout_s=0.01)
        assert await client.call("wait") == {}

    with_both(story, handlers={"wait": wait_long})


def test_a_call_that_cannot_be_written_is_refused_before_it_is_sent() -> None:
    async def story(client: Client, server: Server) -> None:
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            await client.call("$echo", {"object": object()})
        with pytest.raises(UsageError, match="too long"):
            await client.call("$echo", {"text": "x" * 2000})
        assert await client.call("$echo") == {}

    with_both(story, settings=Settings(message_bytes_max=1024))


def test_an_address_without_a_port_means_the_protocols_own() -> None:
    async def run() -> None:
        assert str(exmp.connect("127.0.0.1").address) == "127.0.0.1:5040"
        assert str(exmp.connect("[::1]", tls=exmp.client_context(None)).address) == "[::1]:5041"
        with pytest.raises(UsageError, match="is not HOST:PORT"):
            exmp.connect("not an address")

    asyncio.run(run())
