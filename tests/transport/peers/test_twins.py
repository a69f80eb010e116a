"""Two nodes with one id, and one in the middle: nobody flaps for ever, and both get to know of each other."""

from __future__ import annotations

import pytest

from tests.transport.peers.nodes import TestNode, running
from weft.model import NodeId
from weft.wire.mesh.lives import Life

ELDER, YOUNGER = Life(1000, b"e" * 16), Life(2000, b"y" * 16)


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("middle", ["a", "z"], ids=["lower id", "higher id"])
@pytest.mark.parametrize("incarnations", [(1, 2), (2, 1)])
async def test_both_hear_of_each_other_and_the_elder_keeps_its_link(middle: str, incarnations: tuple[int, int]) -> None:
    center = TestNode(middle, life=Life(1, b"m" * 16))
    elder = TestNode("m", life=ELDER, incarnation=incarnations[0])
    younger = TestNode("m", life=YOUNGER, incarnation=incarnations[1])
    async with running(center, elder, younger):
        elder.links.dial(center.address)
        await center.record.until(lambda: center.record.told == ["up m"])
        younger.links.dial(center.address)
        await younger.record.until(lambda: (ELDER, middle) in younger.record.twins)
        await elder.record.until(lambda: (YOUNGER, middle) in elder.record.twins)
        assert center.record.twins_seen == [NodeId("m")]
        younger.links.undial(center.address)
        await center.record.until(lambda: center.record.told[-1] == "up m")
        (link,) = center.links.links()
        assert link.connected


@pytest.mark.req("SEC-07")
async def test_twins_that_meet_both_know() -> None:
    elder, younger = TestNode("m", life=ELDER), TestNode("m", life=YOUNGER)
    async with running(elder, younger):
        younger.links.dial(elder.address)
        await younger.record.until(lambda: younger.record.twins)
        await elder.record.until(lambda: elder.record.twins)
        assert younger.record.twins[0] == (ELDER, elder.address)
        assert elder.record.twins[0][0] == YOUNGER


@pytest.mark.req("SEC-07")
async def test_a_node_that_dials_itself_has_no_twin() -> None:
    node = TestNode("m", life=ELDER)
    async with running(node):
        node.links.dial(node.address)
        await node.record.until(lambda: node.record.failed)
        assert "our own node id" in node.record.failed[0]
        assert node.record.twins == []


@pytest.mark.req("SEC-07")
async def test_a_node_that_was_started_again_has_no_twin() -> None:
    center, first, second = (
        TestNode("a", life=Life(1, b"a" * 16)),
        TestNode("m", life=ELDER),
        TestNode("m", life=YOUNGER),
    )
    async with running(center, first, second):
        first.links.dial(center.address)
        await center.record.until(lambda: center.record.told == ["up m"])
        await first.stop()
        second.links.dial(center.address)
        await center.record.until(lambda: center.record.told == ["up m", "down m", "up m"])
        assert not second.record.twins and not center.record.twins_seen
