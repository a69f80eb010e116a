"""Loss, doubles and reordering between real sockets: by relays that do it, and by the kernel where there is root (nft).

The relays stand outside of the nodes and read IP headers (IP_RECVTTL). So they see what EMC-12 and EMC-13 promise on
the wire, datagram by datagram, on any machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.emm_compact.nodes import WAIT_S, node
from tests.emm_compact.troubled import EVENTS, NODES, PAIRS, Outcome, publish_all, quiet
from weft.emm_compact import Node
from weft.transport.udp import UdpSocket
from weft.wire.emm_compact import EventType, Notification, decode_untrusted
from weft.wire.reject import Reject
from weft.wire.udp import Address, Datagram

LOSS = 0.15
DELAY_S_MAX = 0.03
SHORT = 8  # events of each node that may take one hop only


@dataclass(frozen=True, slots=True)
class Crossing:
    """A copy of a notification on its way from one node to another."""

    sender: int
    receiver: int
    ttl: int


@dataclass(slots=True)
class Seen:
    """What the ways saw: of each packet, byte by byte, what nodes sent, and what was handed to them, in that order."""

    sent: defaultdict[bytes, list[Crossing]] = field(default_factory=lambda: defaultdict(list))
    handed: defaultdict[bytes, list[Crossing]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0
    doubled: int = 0


class TroubledWay:
    """Stands between two nodes: each takes it for the other. Loses, doubles and delays what goes through."""

    def __init__(self, random: Random, seen: Seen, left: int, right: int) -> None:
        self._random = random
        self._seen = seen
        self._left, self._right = left, right

    async def open(self, stack: AsyncExitStack, nodes: list[Node]) -> Address:
        """The address at which the left node finds the right one."""
        self._at_left, self._at_right = nodes[self._left].address, nodes[self._right].address
        self._to_left = stack.enter_context(await UdpSocket.bind("127.0.0.1", 0, self._from_left))
        self._to_right = stack.enter_context(await UdpSocket.bind("127.0.0.1", 0, self._from_right))
        return self._to_left.address

    def _from_left(self, datagrams: Sequence[Datagram]) -> None:
        for each in datagrams:
            self._pass(each, Crossing(self._left, self._right, each.ttl), self._to_right, self._at_right)

    def _from_right(self, datagrams: Sequence[Datagram]) -> None:
        for each in datagrams:
            self._pass(each, Crossing(self._right, self._left, each.ttl), self._to_left, self._at_left)

    def _pass(self, each: Datagram, crossing: Crossing, through: UdpSocket, target: Address) -> None:
        self._seen.sent[each.data].append(crossing)
        if self._random.random() < LOSS:
            self._seen.lost += 1
            return
        is_doubled = self._random.random() < LOSS
        self._seen.doubled += is_doubled
        for _ in range(1 + is_doubled):
            delay_s = self._random.uniform(0, DELAY_S_MAX)
            asyncio.get_running_loop().call_later(delay_s, self._hand, each, crossing, through, target)

    def _hand(self, each: Datagram, crossing: Crossing, through: UdpSocket, target: Address) -> None:
        self._seen.handed[each.data].append(crossing)
        through.send(each.data, target, ttl=each.ttl, tos=each.tos)


@pytest.mark.req("EMC-12", "EMC-13")
async def test_five_nodes_over_ways_that_lose_double_and_reorder() -> None:
    seen = Seen()
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(number)) for number in range(NODES)]
        random, joins = Random(1), []  # noqa: S311 - not a secret
        for who, whom in PAIRS:
            found_at = await TroubledWay(random, seen, who, whom).open(stack, nodes)
            joins.append(nodes[who].join(found_at[:2], timeout_s=WAIT_S))
        await asyncio.gather(*joins)
        outcome = await publish_all(nodes)
        assert (outcome.twice, outcome.reordered > 0) == (0, True)
        assert outcome.share > 0.95, "an event is missed only if it is lost on all ways"
        assert seen.lost > 100 and seen.doubled > 100
        check_hops(seen)
        check_repeats(seen, nodes)
        await check_short(seen, nodes)


def notifications(seen: Seen) -> Iterator[tuple[int, str, bytes]]:
    """Of each notification: who made it, what it says, and its bytes."""
    for data in list(seen.sent):
        packet = decode_untrusted(data)
        if packet.header.type is EventType.NOTIFICATION:
            assert isinstance(packet.body, Notification)
            text = packet.body.message.decode()
            yield int(text.partition(":")[0]), text, data


def check_hops(seen: Seen) -> None:
    """Each node sends an event on as it is, once, to all but the one it has it from, with one less to live."""
    everybody, texts = set(range(NODES)), Counter[str]()
    for origin, text, data in notifications(seen):
        texts[text] += 1  # by its bytes: one that was changed on its way is there twice
        senders: defaultdict[int, list[Crossing]] = defaultdict(list)
        for crossing in seen.sent[data]:
            senders[crossing.sender].append(crossing)
        first: dict[int, Crossing] = {origin: Crossing(origin, origin, 65)}
        for crossing in seen.handed[data]:
            first.setdefault(crossing.receiver, crossing)
        assert senders.keys() == first.keys(), "whoever got it sent it on"
        for sender, crossings in senders.items():
            source = first[sender]
            assert {each.ttl for each in crossings} == {source.ttl - 1}
            expected = everybody - {sender, source.sender}
            assert sorted(each.receiver for each in crossings) == sorted(expected)
    assert set(texts.values()) == {1} and len(texts) == NODES * EVENTS


def check_repeats(seen: Seen, nodes: list[Node]) -> None:
    """All copies but the first are discarded, and an event's own maker discards all of them."""
    for number, each in enumerate(nodes):
        copies = fresh = 0
        for origin, _, data in notifications(seen):
            count = sum(crossing.receiver == number for crossing in seen.handed[data])
            copies += count
            fresh += bool(count) and origin != number
        assert each.figures.delivered == fresh
        assert each.figures.rejected[Reject.REPLAY] >= copies - fresh > 100, "joins may be doubled, too"


async def check_short(seen: Seen, nodes: list[Node]) -> None:
    """A TTL of 1 is 0 for the next hop: nobody sends it on, however often and over however many ways it came."""
    seen.sent.clear()
    seen.handed.clear()
    before = [each.figures.delivered for each in nodes]
    for number in range(SHORT):
        for who, each in enumerate(nodes):
            await each.publish(f"{who}:short {number}", ttl=1)
    await quiet(nodes)
    found = list(notifications(seen))
    assert len(found) == NODES * SHORT
    for origin, _, data in found:
        assert {(each.sender, each.ttl) for each in seen.sent[data]} == {(origin, 1)}
    reached = sum(len({each.receiver for each in seen.handed[data]}) for *_, data in found)
    assert sum(each.figures.ended for each in nodes) == reached
    assert sum(each.figures.delivered for each in nodes) == sum(before) + reached


@contextmanager
def lossy_namespace() -> Iterator[str]:
    """A private network with nothing but a loopback that loses; skipped where that is not possible."""
    if shutil.which("ip") is None or shutil.which("nft") is None or os.geteuid() != 0:
        pytest.skip("needs root, and the ip and nft commands")
    name = f"weft-{os.getpid()}-loss"
    try:
        subprocess.run(("ip", "netns", "add", name), check=True, capture_output=True, timeout=WAIT_S)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine allows no network namespaces: {error.stderr.decode().strip()}")
    rules = (
        "add table ip loss; add chain ip loss in { type filter hook input priority 0; }; "
        f"add rule ip loss in numgen random mod 100 < {100 * LOSS:.0f} counter drop"
    )
    try:
        subprocess.run(("ip", "-n", name, "link", "set", "lo", "up"), check=True, timeout=WAIT_S)
        try:
            command = ("ip", "netns", "exec", name, "nft", rules)
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this kernel has no nft that loses by chance: {error.stderr.decode().strip()}")
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), check=True, timeout=WAIT_S)


def test_five_nodes_on_a_network_that_loses() -> None:
    """The kernel loses; the rest is proven above, on every machine."""
    with lossy_namespace() as name:
        done = subprocess.run(
            ("ip", "netns", "exec", name, sys.executable, "-m", "tests.emm_compact.troubled"),
            check=True,
            capture_output=True,
            timeout=2 * WAIT_S,
            cwd=Path(__file__).parents[2],
        )
        outcome = Outcome(**json.loads(done.stdout))
        listed = subprocess.run(
            ("ip", "netns", "exec", name, "nft", "list", "ruleset"), check=True, capture_output=True, timeout=WAIT_S
        )
        (lost,) = re.findall(rb"counter packets (\d+)", listed.stdout)
        assert int(lost) > 100
        assert outcome.twice == 0
        assert outcome.share > 0.95, "an event is missed only if it is lost on all ways"
