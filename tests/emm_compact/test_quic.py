"""EMM-C packets in QUIC's DATAGRAM frames."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emm_compact.nodes import WAIT_S, take, until
from tests.emm_compact.world import node_id, ring_of, signer
from tests.security import pki
from weft.emm_compact import ChangeKind, NeighbourChange, Node
from weft.security import Credentials as Certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return pki.issued(pki.authority(tmp_path_factory.mktemp("ca"), now_s=pki.wall()), now_s=pki.wall())


def node(number: int, **more: Any) -> Node:
    return Node(node_id(number), signer(number), ring_of(range(3)), **more)


@pytest.mark.req("EMM-28")
async def test_events_travel_over_quic_and_on_over_udp(certificate: Certificate) -> None:
    """Two nodes by QUIC alone, the third by UDP: QUIC says no TTL, so 64 is what a packet has left."""

    async with (
        node(0, listen=None) as one,
        node(1, quic=("127.0.0.1", 0), certificate=certificate) as middle,
        node(2) as far,
    ):
        neighbour = await one.join_quic(middle.quic_address, certificate.root_pem, timeout_s=WAIT_S)
        assert neighbour.address[0] == "quic/127.0.0.1"
        await far.join(middle.address, timeout_s=WAIT_S)
        await until(lambda: len(middle.relationships) == 2)
        await one.publish("there", ttl=3)
        (here,), (there,) = await take(middle, 1), await take(far, 1)
        assert (here.text, here.ttl) == ("there", 64)
        assert (there.text, there.ttl) == ("there", 63)
        await far.publish("back")
        assert [event.text for event in await take(one, 1)] == ["back"]


@pytest.mark.req("EMM-28")
async def test_a_connection_that_ended_is_made_again(certificate: Certificate) -> None:
    changes: list[NeighbourChange] = []
    async with node(0, listen=None, on_change=changes.append) as one:
        async with node(1, listen=None, quic=("127.0.0.1", 0), certificate=certificate) as server:
            address = server.quic_address
            await one.join_quic(address, certificate.root_pem, timeout_s=WAIT_S)
        await until(lambda: not one.relationships)
        async with node(1, listen=None, quic=address, certificate=certificate) as server:
            await until(lambda: one.relationships)
            await one.publish("again")
            assert [event.text for event in await take(server, 1)] == ["again"]
    assert [each.kind for each in changes[:3]] == [ChangeKind.JOINED, ChangeKind.LOST, ChangeKind.JOINED]
