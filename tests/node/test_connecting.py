"""Peers that are configured and not there yet: they are seen from the start (SEE-04)."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.client import PeerInfo

pytestmark = pytest.mark.req("SEE-04", "PL-06")


def states(node: RunningNode) -> dict[str, int]:
    found = re.findall(r'^weft_connection_state\{peer="([^"]+)"\} (\d)', node.metrics(), re.MULTILINE)
    return {peer: int(state) for peer, state in found}


def peers(node: RunningNode) -> list[PeerInfo]:
    async def ask() -> list[PeerInfo]:
        async with weft.connect(node.grpc, insecure=True) as client:
            return await client.peers()

    return asyncio.run(ask())


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + END_TIMEOUT_S
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.05)


def test_a_peer_that_was_never_reached_has_a_row_and_figures_and_then_a_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
    with up(tmp_path / "a", "--insecure", "--node-id", "node-a", "--peer", address) as first:
        until(lambda: address in states(first))
        assert states(first)[address] in (0, 1), "down, or connecting"
        until(lambda: "refused" in peers(first)[0].trouble)
        row = peers(first)[0]
        assert (row.node_id, row.addresses, row.state, row.connected) == ("", (address,), "connecting", False)
        with up(tmp_path / "b", "--insecure", "--node-id", "node-b", "--listen", address):
            until(lambda: states(first).get("node-b") == 3)
            assert address not in states(first), "one peer has one set of figures"
            assert [(row.node_id, row.connected) for row in peers(first)] == [("node-b", True)]
        until(lambda: states(first).get("node-b") in (0, 1))
        assert [row.node_id for row in peers(first)] == ["node-b"]
