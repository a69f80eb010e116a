"""What callers make a node hold: shares, who waits, and in which order they go on."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from weft.port import held as module
from weft.port.errors import Busy
from weft.port.held import HeldBytes, Holding, Use


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def take(woken: list[int], number: int, holding: Holding) -> None:
    woken.append(number)
    holding.take(100)


@pytest.mark.req("SEC-05")
async def test_a_caller_is_full_on_its_own_and_per_use() -> None:
    held = HeldBytes(1000, 400)
    one, other = held.holding("k1", Use.FETCH), held.holding("k1", Use.FETCH)
    one.take(100)
    assert one.is_full and other.is_full, "its share is a quarter"
    assert not held.holding("k1", Use.PUBLISH).is_full
    assert not held.holding("k2", Use.FETCH).is_full
    one.give_back(1)
    assert not other.is_full


@pytest.mark.req("SEC-05")
async def test_when_all_is_taken_whoever_holds_nothing_may_have_one_thing() -> None:
    held = HeldBytes(100, 4000)
    large = held.holding("k1", Use.FETCH)
    large.take(150)
    late = held.holding("k2", Use.FETCH)
    assert not late.is_full
    late.take(10)
    assert late.is_full


async def test_one_stream_gets_a_part_of_its_callers_share() -> None:
    held = HeldBytes(1000, 400)
    stuck, other = held.holding("k1", Use.SUBSCRIBE, 4), held.holding("k1", Use.SUBSCRIBE, 4)
    stuck.take(25)
    assert stuck.is_full and not other.is_full


@pytest.mark.req("SEC-05")
async def test_those_who_wait_go_on_in_turn_and_only_as_far_as_there_is_room() -> None:
    held = HeldBytes(1000, 400)
    first = held.holding("k1", Use.FETCH)
    first.take(100)
    woken: list[int] = []
    waiting = [held.holding("k1", Use.FETCH) for _ in range(3)]
    for number, each in enumerate(waiting):
        each.when_room(partial(take, woken, number, each))
    await turns()
    assert woken == []
    first.close()
    await turns()
    assert woken == [0]
    waiting[1].close()
    waiting[0].close()
    await turns()
    assert woken == [0, 2], "who has left is passed over"


async def test_a_stream_that_is_full_itself_waits_for_itself() -> None:
    held = HeldBytes(1000, 400)
    one = held.holding("k1", Use.SUBSCRIBE, 2)
    one.take(60)
    woken: list[int] = []
    one.when_room(lambda: woken.append(1))
    await turns()
    assert not woken
    one.keep(49)
    await turns()
    assert woken


@pytest.mark.req("SEC-05")
async def test_after_a_while_of_waiting_comes_a_refusal_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM_WAIT_S", 0.01)

    held = HeldBytes(1000, 400)
    unread = held.holding("key k1", Use.FETCH)
    unread.take(100)
    with pytest.raises(Busy, match="this node holds too much for you") as caught:
        await held.holding("key k1", Use.FETCH).room()
    assert caught.value.facts == {"who": "key k1", "held_for": "fetches", "bytes": 100, "limit": 100}


async def test_what_is_closed_holds_nothing_and_takes_nothing() -> None:
    held = HeldBytes(1000, 400)
    one = held.holding("k1", Use.FETCH)
    one.take(30)
    one.close()
    one.take(30)
    assert held.bytes == 0
