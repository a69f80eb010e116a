"""A data directory that was copied, and started a second time: both nodes say so, and the later one stops (SEC-07)."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.mesh.test_under_weft_up import pair
from tests.mesh.watching import until
from tests.security.attacks.test_one_bad_node_of_weft_up import MESH, evil_at
from tests.transport.peers.raw_peer import RawPeer
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.cli.up_work import TWIN_STATUS
from weft.security import CertificateStore
from weft.security.notary import CertificateNotary
from weft.wire.mesh.features import Feature
from weft.wire.mesh.lives import Life, statement
from weft.wire.mesh.peerlink_pb2 import Handshake, HeardLife, NodeLife, PeerMessage


def lines(node: RunningNode, event: str) -> list[dict[str, Any]]:
    return [line for line in node.logged() if line["event"] == event]


def ready_reasons(node: RunningNode) -> list[str]:
    try:
        with urlopen(f"http://{node.admin}/readyz", timeout=END_TIMEOUT_S) as answer:
            body = answer.read()
    except HTTPError as error:
        body = error.read()
    reasons: list[str] = json.loads(body)["reasons"]
    return reasons


def copied(data: Path) -> Path:
    """As people do it: while the node runs."""
    copy = data.with_name(f"{data.name}-copy")
    shutil.copytree(data, copy)
    return copy


async def said_to(peer: RawPeer, hello: Handshake) -> Handshake:
    """What a node answers to a hello, on a stream of its own."""
    stream = peer.open("EventStream", dial="another")
    await stream.write(PeerMessage(handshake=hello).SerializeToString())
    answer: Handshake = PeerMessage.FromString(await stream.read()).handshake
    stream.cancel()
    return answer


def told_to_stop(node: RunningNode) -> None:
    assert node.process.wait(END_TIMEOUT_S) == TWIN_STATUS, node.said()
    (found,) = lines(node, "twin_found")
    assert found["stops"] == "this one" and found["id"] == "b"
    last = " ".join(line for line in node.said().splitlines() if not line.startswith("{"))
    assert "another node runs with the id b" in last and "--node-id" in last


@pytest.mark.req("SEC-07")
async def test_the_later_one_stops_and_the_other_says_why_it_is_not_ready(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        await until(lambda: bool(lines(a, "peer_connected")))
        with up(copied(tmp_path / "b"), "--peer", a.grpc, "--ca", f"https://{a.ready['ca']}") as copy:
            told_to_stop(copy)
            assert lines(copy, "twin_found")[0]["told_by"] == "a"
        await until(lambda: bool(lines(b, "twin_found")))
        assert lines(b, "twin_found")[0]["stops"] == "the other one"
        assert any("another node runs with the id b" in reason for reason in ready_reasons(b))
        assert [line["peer"] for line in lines(a, "two_nodes_with_one_id")] == ["b"]
        b.end_quietly()
        a.end_quietly()


@pytest.mark.req("SEC-07")
def test_a_copy_that_dials_the_node_it_was_copied_from_stops(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        with up(copied(tmp_path / "b"), "--peer", b.grpc, "--ca", f"https://{a.ready['ca']}") as copy:
            told_to_stop(copy)
        assert lines(b, "twin_found")[0]["stops"] == "the other one"
        b.end_quietly()
        a.end_quietly()


@pytest.mark.req("SEC-06", "SEC-07")
async def test_a_bad_node_cannot_stop_another_by_telling_of_a_twin(tmp_path: Path) -> None:
    """It says that an earlier life of b has heard of this one; but it cannot sign that."""

    with pair(tmp_path) as (a, b):
        async with evil_at(b, tmp_path / "a", tmp_path / "evil") as evil:
            mine = CertificateStore(tmp_path / "evil").load()
            assert mine is not None
            life_of_b = (await said_to(evil, Handshake(node_id="evil", protocol_version=1, mesh=MESH))).run
            assert life_of_b, "b tells everybody of its life"
            said = statement(MESH, "b", Life(1, b"0" * 16), life_of_b)
            signed = CertificateNotary(MESH, lambda: mine, time.time).sign(said)
            forged = HeardLife(run=life_of_b, signature=signed.signature, chain=signed.chain_pem)
            message = Handshake(
                node_id="evil",
                protocol_version=1,
                features=sorted(Feature),
                mesh=MESH,
                other=NodeLife(run=b"0" * 16, started_ms=1, heard=forged),
            )
            answer = await said_to(evil, message)
            assert answer.heard.run == b"0" * 16, "b has heard that, and does not believe it"
        assert not lines(b, "twin_found") and not ready_reasons(b)
        b.end_quietly()
        a.end_quietly()
