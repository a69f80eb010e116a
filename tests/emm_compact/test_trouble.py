"""Loss and reordering between real sockets: by relays that do it, and by the kernel where it can (netem)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.emm_compact.nodes import WAIT_S, node
from tests.emm_compact.troubled import PAIRS, Outcome, publish_all
from tests.transport.udp.loops import on_loop
from weft.transport.udp import UdpSocket
from weft.wire.udp import Address, Datagram

LOSS = 0.15
DELAY_S_MAX = 0.03


class TroubledWay:
    """Stands between two nodes: each takes it for the other. Loses, doubles and delays what goes through."""

    def __init__(self, random: Random) -> None:
        self.lost = 0
        self._random = random

    async def open(self, stack: AsyncExitStack, left: Address, right: Address) -> Address:
        """The address at which the left node finds the right one."""
        self._left, self._right = left, right
        self._to_left = stack.enter_context(await UdpSocket.bind("127.0.0.1", 0, self._from_left))
        self._to_right = stack.enter_context(await UdpSocket.bind("127.0.0.1", 0, self._from_right))
        return self._to_left.address

    def _from_left(self, datagrams: Sequence[Datagram]) -> None:
        self._pass(datagrams, self._to_right, self._right)

    def _from_right(self, datagrams: Sequence[Datagram]) -> None:
        self._pass(datagrams, self._to_left, self._left)

    def _pass(self, datagrams: Sequence[Datagram], through: UdpSocket, target: Address) -> None:
        for each in datagrams:
            if self._random.random() < LOSS:
                self.lost += 1
                continue
            for _ in range(1 + (self._random.random() < LOSS)):
                delay_s = self._random.uniform(0, DELAY_S_MAX)
                asyncio.get_running_loop().call_later(delay_s, self._send, through, each, target)

    def _send(self, through: UdpSocket, each: Datagram, target: Address) -> None:
        through.send(each.data, target, ttl=each.ttl, tos=each.tos)


def check(outcome: Outcome) -> None:
    assert outcome.twice == 0
    assert outcome.share > 0.95, "an event is missed only if it is lost on all ways"
    assert outcome.reordered > 0


@pytest.mark.req("EMC-12", "EMC-13")
@on_loop
async def test_five_nodes_over_ways_that_lose_double_and_reorder() -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(number)) for number in range(5)]
        random, ways, joins = Random(1), list[TroubledWay](), []  # noqa: S311 - not a secret
        for who, whom in PAIRS:
            ways.append(TroubledWay(random))
            found_at = await ways[-1].open(stack, nodes[who].address, nodes[whom].address)
            joins.append(nodes[who].join(found_at[:2], timeout_s=WAIT_S))
        await asyncio.gather(*joins)
        check(await publish_all(nodes))
        assert sum(way.lost for way in ways) > 100


@contextmanager
def lossy_namespace() -> Iterator[str]:
    """A private network with nothing but a loopback that loses and reorders; skipped where that is not possible."""
    if shutil.which("ip") is None or shutil.which("tc") is None or os.geteuid() != 0:
        pytest.skip("needs root, and the ip and tc commands")
    name = f"weft-{os.getpid()}-loss"
    netem = ("delay", "10ms", "10ms", "loss", f"{100 * LOSS:.0f}%", "duplicate", "10%")
    try:
        subprocess.run(("ip", "netns", "add", name), check=True, capture_output=True, timeout=WAIT_S)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine allows no network namespaces: {error.stderr.decode().strip()}")
    try:
        subprocess.run(("ip", "-n", name, "link", "set", "lo", "up"), check=True, timeout=WAIT_S)
        try:
            command = ("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", *netem)
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel has no netem: {error.stderr.decode().strip()}")
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), check=True, timeout=WAIT_S)


@pytest.mark.req("EMC-12", "EMC-13")
def test_five_nodes_on_a_network_with_netem() -> None:
    with lossy_namespace() as name:
        done = subprocess.run(
            ("ip", "netns", "exec", name, sys.executable, "-m", "tests.emm_compact.troubled"),
            check=True,
            capture_output=True,
            timeout=2 * WAIT_S,
            cwd=Path(__file__).parents[2],
        )
        check(Outcome(**json.loads(done.stdout)))
