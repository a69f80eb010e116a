"""A new connection before the old one goes: what ``PeerLinks.renew`` does when a certificate is a new one."""

from __future__ import annotations

import pytest

from tests.transport.peers.nodes import TestNode, copy, running, settled
from weft.core.messages import SendCopies


@pytest.mark.req("SEC-01")
@pytest.mark.parametrize("names", [("node-a", "node-b"), ("node-b", "node-a")])
async def test_links_that_we_dialled_are_replaced(names: tuple[str, str]) -> None:
    dialler, other = map(TestNode, names)
    async with running(dialler, other):
        dialler.links.dial(other.address)
        await dialler.linked(other)
        await other.linked(dialler)
        for renewals in range(1, 4):
            dialler.links.renew()
            wanted = [f"up {other.id}", *[f"down {other.id}", f"up {other.id}"] * renewals]
            await dialler.record.until(lambda wanted=wanted: dialler.record.told == wanted)  # type: ignore[misc]
            await other.linked(dialler)
            await settled(lambda: len(other.links._links) == 1 and len(dialler.links._links) == 1)
        dialler.links.send(SendCopies(other.id, (copy(0),)))
        await other.record.until(lambda: other.record.offsets() == [0])
        assert set(other.record.reasons) <= {
            f"replaced by another connection of the two nodes (peer {dialler.id})",
            f"the peer is closing: replaced by another connection of the two nodes (peer {other.id})",
        }


async def test_who_accepts_has_nothing_to_renew() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await b.linked(a)
        b.links.renew()
        assert b.record.told == [f"up {a.id}"]


async def test_a_peer_that_is_gone_is_not_waited_for() -> None:
    """The link stays as it is while its successor cannot be had, and ends when it breaks; then all is as ever."""

    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        address = b.address
        await b.kill()
        a.links.renew()
        await a.record.until(lambda: a.record.told == [f"up {b.id}", f"down {b.id}"])
        await b.start(address)
        await a.linked(b)


async def test_undialling_in_the_middle_leaves_nothing() -> None:
    a, b = TestNode("node-a"), TestNode("node-b")
    async with running(a, b):
        a.links.dial(b.address)
        await a.linked(b)
        a.links.renew()
        a.links.undial(b.address)
        await settled(lambda: not a.links.links() and not b.links.links())
