"""Asking again and again: when, how often, and for how long."""

from __future__ import annotations

import pytest

from weft.datagram_node import Seeking
from weft.errors import UsageError
from weft.wire.udp import Address

A: Address = ("10.0.0.1", 7500)
B: Address = ("10.0.0.2", 7500)
C: Address = ("10.0.0.3", 7500)


def asked_at_s(seeking: Seeking, until_s: float) -> list[float]:
    times = []
    while (now_s := seeking.next_s()) is not None and now_s <= until_s:
        if seeking.due(now_s):
            times.append(now_s)
    return times


@pytest.mark.req("EMC-11")
def test_delays_double_up_to_a_minute() -> None:
    seeking = Seeking()
    seeking.seek(A, now_s=100.0)
    assert asked_at_s(seeking, 300.0) == [100, 101, 103, 107, 115, 131, 163, 223, 283]


def test_an_address_that_answered_is_not_asked_again() -> None:
    seeking = Seeking()
    seeking.seek(A, now_s=0.0)
    seeking.seek(B, now_s=0.0)
    assert seeking.due(0.0) == [A, B]
    seeking.stop(A)
    seeking.stop(A)
    assert A not in seeking and B in seeking
    assert seeking.due(5.0) == [B]


def test_an_address_is_given_up_when_its_time_is_over() -> None:
    seeking = Seeking()
    seeking.seek(A, now_s=0.0, until_s=10.0)
    assert asked_at_s(seeking, 1000.0) == [0, 1, 3, 7]
    assert A not in seeking
    assert seeking.next_s() is None


def test_an_address_to_be_asked_for_ever_takes_the_place_of_one_asked_for_a_while() -> None:
    seeking = Seeking(addresses_max=2)
    seeking.seek(A, now_s=0.0, until_s=20.0)
    seeking.seek(B, now_s=0.0, until_s=10.0)
    with pytest.raises(UsageError, match="too many addresses are being sought"):
        seeking.seek(C, now_s=0.0, until_s=99.0)
    seeking.seek(C, now_s=0.0)
    assert A in seeking and B not in seeking and C in seeking
    seeking.seek(B, now_s=0.0)
    assert seeking.due(0.0) == [C, B]
    with pytest.raises(UsageError, match="too many addresses are being sought"):
        seeking.seek(A, now_s=0.0)


def test_the_number_of_addresses_is_bounded() -> None:
    seeking = Seeking(addresses_max=1)
    seeking.seek(A, now_s=0.0)
    seeking.seek(A, now_s=5.0)
    assert not seeking.has_room()
    with pytest.raises(UsageError, match="too many addresses are being sought"):
        seeking.seek(B, now_s=0.0)
