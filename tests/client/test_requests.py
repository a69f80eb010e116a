"""Requests and replies over topics."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.fake import FakeNode, running, until
from tests.client.story import connect, play
from weft.client import Client, NoReply
from weft.client.requests import CORRELATION, REPLY_TO
from weft.errors import UsageError
from weft.model.owned import OwnedKind, read_owned


async def answer(client: Client, pattern: str) -> None:
    async for request in client.requests(pattern):
        await request.reply(request.payload.upper(), headers={"by": "me"})


def test_a_request_gets_its_reply() -> None:
    async def story() -> None:
        node = FakeNode()
        async with running(node) as addresses, connect(addresses) as asker, connect(addresses) as answerer:
            answering = asyncio.create_task(answer(answerer, "ask.*"))
            await until(lambda: len(node.opens) == 1)
            replies = await asyncio.gather(*(asker.request("ask.upper", word) for word in ("one", "two", "three")))
            assert [reply.payload for reply in replies] == [b"ONE", b"TWO", b"THREE"]
            assert replies[0].headers is not None
            assert replies[0].headers["by"] == "me"
            (inbox,) = {reply.topic for reply in replies}
            assert read_owned(inbox) == (OwnedKind.INBOX, await asker.owner())
            assert asker.id not in inbox, "members of groups are listed by that"
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    play(story())


def test_nobody_answers() -> None:
    async def story() -> None:
        async with running(FakeNode()) as addresses, connect(addresses) as client:
            with pytest.raises(NoReply) as raised:
                await client.request("ask", b"?", timeout_s=0.1)
            assert raised.value.facts == {"topic": "ask", "waited_s": 0.1}

    play(story())


def test_an_event_that_asks_for_nothing_cannot_be_replied_to() -> None:
    async def story() -> None:
        node = FakeNode()
        async with running(node) as addresses, connect(addresses) as client:
            requests = client.requests("ask")
            first = asyncio.ensure_future(anext(requests))
            await until(lambda: len(node.opens) == 1)
            await client.publish("ask", b"just saying")
            with pytest.raises(UsageError, match="does not ask"):
                await (await first).reply(b"what")

    play(story())


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("named", ["orders.pay", "weft.staging." + "0" * 16 + "." + "0" * 32, "weft.inbox.x"])
def test_an_asker_cannot_have_an_answer_published_anywhere_but_in_an_inbox(named: str) -> None:
    """The answer goes out with the rights of who answers."""

    async def story() -> None:
        node = FakeNode()
        async with running(node) as addresses, connect(addresses) as client:
            requests = client.requests("ask")
            first = asyncio.ensure_future(anext(requests))
            await until(lambda: len(node.opens) == 1)
            await client.publish("ask", b"pay me", headers={REPLY_TO: named, CORRELATION: "1"})
            with pytest.raises(UsageError, match="replies go to inboxes only"):
                await (await first).reply(b"what")

    play(story())
