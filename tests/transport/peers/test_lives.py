"""Telling twins from a node that was started again: by who still says hello."""

from __future__ import annotations

import pytest

from weft.model import NodeId
from weft.transport.peers.lives import LIFE_KEPT_S, LIVES_NODES_MAX, LIVES_OF_NODE_MAX, PeerLives
from weft.wire.mesh.checks import Signature
from weft.wire.mesh.lives import Heard, Life, OtherLife

B = NodeId("b")
ELDER, YOUNGER = Life(1000, b"e" * 16), Life(2000, b"y" * 16)


def test_the_elder_is_the_lower_one() -> None:
    assert ELDER < YOUNGER


@pytest.mark.req("SEC-07")
def test_a_node_that_starts_again_has_no_twin_however_often_it_connects() -> None:
    lives = PeerLives()
    for life in (ELDER, ELDER, YOUNGER, YOUNGER):
        assert not lives.hear(B, life, None, now_s=0.0)
    assert not lives.are_twins(B)


@pytest.mark.req("SEC-07")
def test_who_says_hello_after_a_later_life_did_is_a_twin_and_that_is_told_once() -> None:
    lives = PeerLives()
    found = [lives.hear(B, life, None, now_s=0.0) for life in (ELDER, YOUNGER, ELDER, YOUNGER)]
    assert found == [False, False, True, False]
    assert lives.are_twins(B) and not lives.are_twins(NodeId("c"))


@pytest.mark.req("SEC-07")
def test_it_is_forgotten_once_one_of_them_is_silent_for_long() -> None:
    lives = PeerLives()
    for life in (ELDER, YOUNGER, ELDER):
        lives.hear(B, life, None, now_s=0.0)
    lives.linked(B, ELDER, LIFE_KEPT_S)
    assert lives.other_than(B, YOUNGER, LIFE_KEPT_S + 1) == OtherLife(ELDER, None)
    assert not lives.are_twins(B)


@pytest.mark.req("SEC-07")
def test_a_life_is_told_of_another_one_and_rather_of_one_that_has_heard_of_it() -> None:
    lives, third = PeerLives(), Life(3000, b"t" * 16)
    heard = Heard(YOUNGER.run, Signature(b"signed"))
    assert lives.other_than(B, ELDER, 0.0) is None
    lives.hear(B, ELDER, heard, now_s=0.0)
    assert lives.other_than(B, ELDER, 0.0) is None
    lives.hear(B, third, None, now_s=0.0)
    lives.hear(B, YOUNGER, None, now_s=0.0)
    assert lives.other_than(B, YOUNGER, 0.0) == OtherLife(ELDER, heard)
    assert lives.other_than(B, None, 0.0) == OtherLife(YOUNGER, None)


def test_it_keeps_a_few_lives_of_so_many_nodes() -> None:
    lives = PeerLives()
    for number in range(LIVES_OF_NODE_MAX + 1):
        lives.hear(B, Life(number, b"r" * 16), None, now_s=0.0)
    assert not lives.hear(B, Life(0, b"r" * 16), None, now_s=0.0), "that one was forgotten, and is new"
    for number in range(LIVES_NODES_MAX):
        lives.hear(NodeId(f"n{number}"), ELDER, None, now_s=0.0)
    assert lives.other_than(B, None, 0.0) is None
