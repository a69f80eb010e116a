"""A link on a transport that is not there: every cut of the stream, one write for all answers, timers, endings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transport.tcp.raw import PATIENCE_S, QUIET, Echo
from tests.wire.exmp.transcript import HELLO, octets, ours, request, response
from weft.errors import UsageError
from weft.transport.tcp import Answer, BadAnswer, ExmpConnection, LinkLost
from weft.transport.tcp.link import words
from weft.wire.exmp import (
    Closed,
    End,
    ErrorCode,
    Failure,
    Hello,
    Message,
    Pong,
    Request,
    Response,
    Settings,
    Success,
    messages_untrusted,
)

CONVERSATION = octets(
    "\n".join(
        (
            request(1, '{"op":"$echo","data":{"n":1}}'),
            "00000004 02 000000",
            request(2, '{"op":"$echo","data":1}'),
            response(1, '{"status":"success","data":{"a":[1]}}'),
            request(9, '{"op":"$echo"}'),
        )
    )
)
BYE = octets("00000004 01 000000")


class Wire:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_ended = self.is_aborted = self.is_paused = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_ended = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def get_write_buffer_size(self) -> int:
        return 1


def play(pieces: Sequence[bytes]) -> tuple[bytes, list[Any], Closed | None, list[Answer]]:
    """What is written, heard and answered when the conversation comes in these pieces."""
    answers: list[Answer] = []

    async def run() -> tuple[bytes, list[Any], Closed | None, list[Answer]]:
        wire = Wire()
        users: list[Asking] = []

        class Asking(Echo):
            def opened(self) -> None:
                super().opened()
                self.link.request("ask", None, answers.append)

        def make(link: ExmpConnection) -> Asking:
            users.append(Asking(link))
            return users[0]

        link = ExmpConnection(QUIET, make)
        link.connection_made(wire)  # type: ignore[arg-type]
        for piece in (octets(HELLO), *pieces):
            link.data_received(piece)
        link.connection_lost(None)
        return b"".join(wire.writes), list(users[0].heard), users[0].end, answers

    return asyncio.run(run())


WHOLE = play([CONVERSATION])


def same(played: tuple[bytes, list[Any], Closed | None, list[Answer]]) -> bool:
    """A pong may overtake answers of the same read; everything else is the same in every way."""
    written, *heard = played
    return heard == list(WHOLE[1:]) and parted(written) == parted(WHOLE[0])


def parted(written: bytes) -> tuple[list[Message], int]:
    """All but the pongs, in order, and how many pongs there are."""
    messages = [message for _, _, message in messages_untrusted(written, 1 << 20)]
    others = [message for message in messages if message != Pong()]
    return others, len(messages) - len(others)


def test_the_conversation_is_as_it_should_be() -> None:
    written, heard, end, answers = WHOLE
    assert [each.id for each in heard] == [1, 2, 9]
    assert end == Closed(End.EOF, None, "the stream ended without a bye")
    assert answers == [Success({"a": [1]})]
    hello, asked, *responses = parted(written)[0]
    assert (hello, asked) == (Hello(1), Request(1, b'{"op":"ask","data":{}}'))
    assert [each.id for each in responses if isinstance(each, Response)] == [1, 2, 9]
    assert parted(written)[1] == 1


def test_what_is_asked_before_a_bye_is_heard_however_it_is_cut() -> None:
    for pieces in ([CONVERSATION + BYE], [CONVERSATION, BYE]):
        _, heard, end, _ = play(pieces)
        assert [each.id for each in heard] == [1, 2, 9]
        assert end == Closed(End.BYE_RECEIVED)


@pytest.mark.req("EXM-01")
def test_byte_by_byte_is_the_same() -> None:
    assert same(play([bytes([octet]) for octet in CONVERSATION]))


@pytest.mark.req("EXM-01")
def test_every_cut_in_two_is_the_same() -> None:
    for at in range(len(CONVERSATION)):
        assert same(play([CONVERSATION[:at], CONVERSATION[at:]])), f"cut at {at}"


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(1, len(CONVERSATION) - 1), max_size=12))
def test_every_cut_in_many_is_the_same(places: set[int]) -> None:
    cuts = [0, *sorted(places), len(CONVERSATION)]
    assert same(play([CONVERSATION[first:end] for first, end in pairwise(cuts)]))


# --- one link ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def greeted(chosen: Settings = QUIET) -> AsyncIterator[tuple[ExmpConnection, Wire, Echo]]:
    """A link that has been greeted."""
    wire, users = Wire(), list[Echo]()

    def make(link: ExmpConnection) -> Echo:
        users.append(Echo(link))
        return users[0]

    link = ExmpConnection(chosen, make)
    link.connection_made(wire)  # type: ignore[arg-type]
    link.data_received(octets(HELLO))
    wire.writes.clear()
    yield link, wire, users[0]
    link.connection_lost(None)


async def test_answers_to_one_read_are_one_write() -> None:
    async with greeted() as (link, wire, user):
        link.data_received(octets("\n".join(map(request, range(1, 101)))))
        assert len(wire.writes) == 1
        assert wire.writes[0] == octets("\n".join(map(response, range(1, 101))))
        assert user.reads == 1


async def test_what_is_said_in_one_turn_is_one_write() -> None:
    async with greeted() as (link, wire, _user):
        for _ in range(10):
            link.request("a", None, lambda answer: None)
        assert wire.writes == []
        await asyncio.sleep(0)
        assert wire.writes == [octets("\n".join(map(ours, range(1, 11))))]


@pytest.mark.req("EXM-03")
async def test_whoever_waits_for_an_answer_is_told_when_there_will_be_none() -> None:
    async with greeted() as (link, _wire, _user):
        answers: list[Answer] = []
        link.request("a", None, answers.append)
        link.request("b", None, answers.append)
        link.data_received(octets(response(1, '{"status":"failure","description":"no"}')))
        link.data_received(octets("00000004 01 000000"))
        assert answers[0] == Failure("no")
        assert isinstance(answers[1], LinkLost)
        assert "the other side said bye" in str(answers[1])
        with pytest.raises(UsageError, match="cannot send a request now"):
            link.request("c", None, answers.append)


async def test_an_answer_that_cannot_be_read_spoils_its_own_request_only() -> None:
    async with greeted() as (link, _wire, _user):
        answers: list[Answer] = []
        link.request("a", None, answers.append)
        link.request("b", None, answers.append)
        link.data_received(octets(response(1, '{"status":"maybe"}')))
        link.data_received(octets(response(2)))
        assert isinstance(answers[0], BadAnswer) and "the answer cannot be read" in str(answers[0])
        assert answers[1] == Success(None)


async def test_a_peer_that_does_not_take_its_answers_is_not_read_from() -> None:
    async with greeted() as (link, wire, _user):
        link.pause_writing()
        assert wire.is_paused and link.is_congested
        link.resume_writing()
        assert not wire.is_paused and not link.is_congested


async def test_a_peer_that_takes_nothing_for_as_long_as_a_pong_may_take_is_cut_off() -> None:
    async with greeted(Settings(ping_interval_s=None, pong_timeout_s=0.01)) as (link, wire, _user):
        link.pause_writing()
        async with asyncio.timeout(PATIENCE_S):
            while not wire.is_aborted:
                await asyncio.sleep(0.001)


async def test_after_the_last_words_it_waits_for_the_other_side_but_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.transport.tcp.link.EXMP_LINGER_S", 0.01)

    async with greeted() as (link, wire, user):
        link.fail(ErrorCode.UNAVAILABLE, "closing time")
        await asyncio.sleep(0)
        assert wire.is_ended and not wire.is_aborted
        assert user.end == Closed(End.ERROR_SENT, 2, "closing time")
        link.data_received(octets(request(1)))  # thrown away
        assert user.heard == []
        async with asyncio.timeout(PATIENCE_S):
            while not wire.is_aborted:
                await asyncio.sleep(0.001)


async def test_strangers_may_say_less_at_a_time_until_they_are_known() -> None:
    long = '{"op":"a","data":{"text":"' + "x" * 2000 + '"}}'
    small = Settings(message_bytes_max=1024, ping_interval_s=None)
    async with greeted(small) as (link, _, user):
        link.data_received(octets(request(1, long)))
        assert user.end is not None and "message is too long" in user.end.description

    async with greeted(small) as (link, _, user):
        link.allow_message_bytes(1 << 20)
        link.data_received(octets(request(1, long)))
        assert len(user.heard) == 1 and user.end is None


@pytest.mark.parametrize("end", End)
def test_every_end_has_words(end: End) -> None:
    assert words(Closed(end, 1, "because"))
