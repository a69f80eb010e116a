"""One bad node against nodes as users start them: it has a certificate of the mesh, and a pen (SEC-06)."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.mesh.test_under_weft_up import client_of_second, lives, pair
from tests.mesh.watching import until
from tests.transport.peers.raw_peer import RawPeer
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode
from weft.model import Batch, Receipt
from weft.security import CertificateStore
from weft.security.notary import CertificateNotary
from weft.transport.peers.signed_states import PURPOSE
from weft.wire.mesh import mesh_pb2, peerlink_pb2

WAIT_S = 60.0
MESH = "weft"  # of a node that was told no other


@asynccontextmanager
async def evil_at(node: RunningNode, authority: Path, place: Path) -> AsyncIterator[RawPeer]:
    """Linked to a node, with a certificate that the CA gave it."""
    command = [*COMMAND, "ca", "issue", "evil", "--data", str(authority), "--to", str(place)]
    subprocess.run(command, capture_output=True, check=True, timeout=END_TIMEOUT_S)
    mine = CertificateStore(place).load()
    assert mine is not None
    credentials = grpc.ssl_channel_credentials(mine.root_pem, mine.key_pem.reveal(), mine.chain_pem)
    async with grpc.aio.secure_channel(node.grpc, credentials) as channel:
        peer = RawPeer(channel)
        await peer.link("evil", MESH)
        yield peer


def copy_of(origin: Receipt, offset: int) -> Any:
    stream = mesh_pb2.StreamRef(topic=origin.stream.topic, origin=origin.stream.origin, epoch=origin.epoch)
    batch = Batch.from_columns([b"forged"], 0).with_base_offset(offset)
    return peerlink_pb2.PeerBatch(batch=mesh_pb2.StreamBatch(stream=stream, batch=batch.data), follows=offset)


def warned(node: RunningNode, event: str, **facts: str) -> bool:
    return any(line["event"] == event and facts.items() <= line.items() for line in node.logged())


@pytest.mark.req("SEC-06")
async def test_forged_events_of_another_node_are_refused_and_the_genuine_ones_arrive(tmp_path: Path) -> None:
    """First the attack that worked: one event at the next offset, one at 2^62; after that b took none of a's."""

    with pair(tmp_path) as (a, b):
        async with (
            asyncio.timeout(WAIT_S),
            a.client() as at_a,
            client_of_second(tmp_path, a, b) as at_b,
            at_b.subscribe("plant.t", start="earliest") as events,
        ):
            arriving = aiter(events)
            first = await at_a.publish("plant.t", b"0")
            assert (await anext(arriving)).payload == b"0"
            async with evil_at(b, tmp_path / "a", tmp_path / "evil") as evil:
                forged = [copy_of(first, 1), copy_of(first, 1 << 62)]
                message = peerlink_pb2.PeerMessage(batches=peerlink_pb2.PeerBatches(batches=forged))
                await evil.events.write(message.SerializeToString())
                await until(lambda: warned(b, "refused_from_peer", peer="evil", reason="unasked"))
                assert 'weft_peer_refused_total{peer="evil",reason="unasked"} 2.0' in b.metrics()
                receipt = await at_a.publish("plant.t", b"1", copies=2)
                assert (receipt.first_offset, receipt.copies) == (1, 2)
                assert (await anext(arriving)).payload == b"1"
        b.end_quietly()
        a.end_quietly()


def left(node_id: str, incarnation: int) -> Any:
    return peerlink_pb2.NodeState(
        node_id=node_id, incarnation=incarnation, version=1, epoch=1, liveness="LIVENESS_LEFT"
    )


def gossip(*states: Any, signed: tuple[Any, ...] = ()) -> bytes:
    message = peerlink_pb2.PeerMessage(gossip=peerlink_pb2.PeerGossip(states=states, signed=signed))
    return bytes(message.SerializeToString())


def signed_by(directory: Path, state: Any) -> Any:
    """By whoever has its certificate there."""
    mine = CertificateStore(directory).load()
    assert mine is not None
    content = state.SerializeToString()
    signature = CertificateNotary(MESH, lambda: mine, time.time).sign(PURPOSE + content)
    return peerlink_pb2.SignedState(
        state=content, signature=signature.signature, chain=signature.chain_pem, found="LIVENESS_ALIVE"
    )


@pytest.mark.req("SEC-06")
async def test_a_node_that_is_said_to_have_left_stays(tmp_path: Path) -> None:
    """First the attack that worked: (a, 2^62 - 1, LEFT) expelled a until both were started again."""

    with pair(tmp_path) as (a, b):
        await until_linked(b)
        async with asyncio.timeout(WAIT_S), evil_at(b, tmp_path / "a", tmp_path / "evil") as evil:
            last, next_life = (1 << 62) - 1, lives(b, "a")[-1][1] + 1
            await evil.control.write(gossip(left("a", last), left("a", next_life)))
            await evil.control.write(gossip(signed=(signed_by(tmp_path / "evil", left("a", next_life)),)))
            await until(lambda: 'weft_peer_refused_total{peer="evil",reason="signature"} 3.0' in b.metrics())
            assert warned(b, "refused_from_peer", peer="evil", reason="signature")
        assert {liveness for liveness, _ in lives(b, "a")} == {"alive"}
        b.end_quietly()
        a.end_quietly()


async def until_linked(node: RunningNode) -> None:
    await until(lambda: bool(lives(node, "a")))
