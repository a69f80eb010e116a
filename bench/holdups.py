"""The longest step of a node's event loop at each of its limits: ``python -m bench.holdups [NAME ...] [--scale F]
[--rounds N]``.

Nothing on the loop should take more than 20 ms (SEC-05). ``weft up`` runs in a process of its own, secured, and watches
its loop itself (``log.held_up_s``). Callers with good keys, and a node with a good certificate, drive it to its limits.
A figure is the CPU time of the longest turn of the loop while that goes on, or how late the loop was if that is less;
so other work on the machine does not count, but for what it takes of caches and memory: of several rounds, each with a
node of its own, the best one counts, as what a step does is the same in each. ``--scale 0.1`` takes a tenth of
everything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
import uvloop
from bench.figures import Figure, add_formats, report
from rich.console import Console

from tests.node.secured import token_from
from tests.security.stated import record
from tests.transport.peers.raw_peer import RawPeer
from tests.up import RunningNode, up
from weft.client import Client, Connecting, TlsFiles, connect
from weft.limits import GOSSIP_STATES_MAX, MIB
from weft.log import books
from weft.model import Batch, Position
from weft.security import Names, node
from weft.security.authority import Authority
from weft.security.credentials import Credentials
from weft.security.files import read_private, write_private
from weft.security.key_store import FILE, KeyFile
from weft.security.notary import CertificateNotary
from weft.security.rotation import LocalSource
from weft.transport.peers.signed_states import PURPOSE
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh import peerlink_pb2 as peer_pb

GOAL_MS: Final = 20.0
TOLD_S: Final = 0.005  # what the nodes tell of
QUIET_S: Final = 0.6  # after which they tell again of what is not longer
PATIENCE_S: Final = 600.0
MESH: Final = "weft"
console = Console(stderr=True)


@dataclass(frozen=True)
class Stage:
    """A node and what is done to it. ``scale`` times the limits are reached."""

    node: RunningNode
    client: Client
    scale: float
    directory: Path
    figures: list[Figure]

    def count(self, limit: int) -> int:
        return max(int(limit * self.scale), 1)

    @asynccontextmanager
    async def measured(self, name: str, of: RunningNode | None = None) -> AsyncIterator[None]:
        """What the node tells of its loop meanwhile."""
        told = of or self.node
        await asyncio.sleep(QUIET_S)
        before, begin_s = len(told.logged()), time.perf_counter()
        yield
        took_s = time.perf_counter() - begin_s
        await asyncio.sleep(4 * TOLD_S)
        self.figures.append(figure(name, took_s, (line for line in told.logged()[before:])))
        console.print(self.figures[-1])


def figure(name: str, took_s: float, lines: Iterable[dict[str, Any]]) -> Figure:
    held = [line for line in lines if line["event"] == "loop_held_up"]
    worst = max(held, key=lambda line: min(line["delay_s"], line["cpu_s"]), default=None)
    if worst is None:
        return Figure(name, TOLD_S * 1000, "ms", GOAL_MS, ceiling=True, note=f"at most; {took_s:.1f} s in all")
    longest_s = min(worst["delay_s"], worst["cpu_s"])
    note = f"{took_s:.1f} s in all" + (f"; garbage {worst['garbage_s'] * 1000:.0f} ms" if worst["garbage_s"] else "")
    return Figure(name, longest_s * 1000, "ms", GOAL_MS, ceiling=True, note=f"{note}; {', '.join(worst['where'])}")


Drive = Callable[[Stage], Awaitable[None]]


# --- publishing and reading ------------------------------------------------------------------------------------------


async def batches(stage: Stage) -> None:
    client = stage.client
    async with stage.measured("publish: events of 15 MiB"):
        for _ in range(stage.count(20)):
            receipt = await client.publish("large.one", bytes(15 * MIB))
    async with stage.measured("publish: 100,000 events in a batch, 100 batches in flight"):
        many = Batch.from_columns([b"x" * 100] * 100_000, 1)
        await asyncio.gather(*(client.publish_batch("large.many", many) for _ in range(stage.count(100))))
    async with stage.measured("publish: batches that are 15 MiB once uncompressed, 1,024 in a message"):
        bomb = Batch.from_columns([bytes(MIB)] * 15, 1, compression="zstd")
        await _publish_raw(stage, [bomb.data] * stage.count(1024))
    async with stage.measured("publish: 1,024 batches in a message, for as many topics"):
        small = Batch.from_columns([b"x"], 1)
        await _publish_raw(stage, [small.data] * stage.count(1024), "small")
    async with stage.measured("fetch: all of the large ones"):
        await client.fetch(receipt.stream, receipt.epoch, 0)
    async with stage.measured("positions of streams that begin with 10 to 15 MiB"):
        await client.positions("large.*")
    async with stage.measured("fetch: a column of a million events"):
        (many_at,) = await client.positions("large.many")
        for first in range(0, min(1_000_000, many_at.latest_offset), 100_000):
            await client.fetch(many_at.stream, many_at.epoch, first, first + 100_000, columns=("timestamp",))
    async with stage.measured("subscribe: ten readers of the large ones"):
        await asyncio.gather(*(_read(client, "large.one", stage.count(20)) for _ in range(10)))
    async with stage.measured("subscribe: twenty readers, each on its own connection"), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(stage.node.client()) for _ in range(20)]
        await asyncio.gather(*(_read(each, "large.one", stage.count(5)) for each in clients))


async def schemas(stage: Stage) -> None:
    """Events that take long to check: those that break a schema, in batches that are taken all the same."""
    client = stage.client
    await client.schemas.set("typed.>", "id BIGINT NOT NULL", kind="ddl", mode="warn")
    await client.schemas.set("nested.>", "a ARRAY<ARRAY<INT>>", kind="ddl", mode="warn")
    await client.schemas.set("lists.>", "a ARRAY<INT>", kind="ddl", mode="warn")
    async with stage.measured("schemas: 100,000 events in a batch, each breaks it, 10 batches in flight"):
        bad = Batch.from_columns([b'{"id":"x"}'] * stage.count(100_000), 1)
        await asyncio.gather(*(client.publish_batch("typed.many", bad) for _ in range(10)))
    async with stage.measured("schemas: 1,024 batches in a message, for as many topics, each breaks it"):
        small = Batch.from_columns([b'{"id":"x"}'] * 10, 1)
        await _publish_raw(stage, [small.data] * stage.count(1024), "typed.small")
    async with stage.measured("schemas: events of 256 KiB, lists in lists"):
        nested = b'{"a":[' + b"[]," * 87_000 + b"[]]}"
        await client.publish_batch("nested.a", Batch.from_columns([nested] * stage.count(50), 1))
    async with stage.measured("schemas: events of 256 KiB, each number needs a thorough look"):
        lists = b'{"a":[' + b"1.0," * 65_000 + b"1]}"
        await client.publish_batch("lists.a", Batch.from_columns([lists] * stage.count(50), 1))


async def _publish_raw(stage: Stage, parts: list[bytes], topic: str = "") -> None:
    call = await stage.client._nodes.open(stage.node.grpc, "/weft.mesh.v1.Mesh/Publish")
    call.write_nowait(pb.PublishRequest(open=pb.PublishOpen()).SerializeToString())
    await call.read()
    wanted = [
        pb.PublishBatch(request=number, topic=f"{topic}.{number}" if topic else "bomb.t", batch=data)
        for number, data in enumerate(parts, 1)
    ]
    call.write_nowait(pb.PublishRequest(batches=pb.PublishBatches(batches=wanted)).SerializeToString())
    left = len(parts)
    while left > 0:
        reply = pb.PublishReply.FromString(await call.read() or b"")
        left -= len(reply.receipts.receipts) or 1
    call.cancel()


async def _read(client: Client, pattern: str, count: int) -> None:
    async with client.subscribe(pattern, start="earliest") as events:
        for _ in range(count):
            await anext(events)


# --- many topics -----------------------------------------------------------------------------------------------------


def _topic(number: int) -> str:
    return f"many.{number:06}.{'x' * 188}"


async def topics(stage: Stage) -> None:
    client, count = stage.client, stage.count(99_000)  # and a few more: a group has 100,000 positions at most
    async with stage.measured("99,000 topics of 200 characters are made"):
        for first in range(0, count, 1000):
            some = range(first, min(first + 1000, count))
            await asyncio.gather(*(client.publish(_topic(number), b"x") for number in some))
    async with stage.measured("a segment of the log with all of them ends"):
        for _ in range(5):
            await client.publish("many.large", bytes(15 * MIB))
        for number in range(2 * count // books.AT_ONCE + 1):  # a record and a producer of each, some with each sync
            await client.publish("many.small", b"%d" % number)
    count += 2
    async with stage.measured("topics"):
        assert len(await client.topics()) == count
    async with stage.measured("positions"):
        places = await client.positions(">")
    async with stage.measured("status, peers, explain"):
        await asyncio.gather(client.status(), client.peers(), client.explain(_topic(0)))
    async with stage.measured("metrics"):
        await asyncio.to_thread(stage.node.metrics)
    async with stage.measured("subscribe to all, and read them"):
        await _read(client, "many.>", count)
    async with stage.measured("subscribe to all from as many positions"):
        everywhere = [Position(each.stream, each.epoch, each.latest_offset) for each in places]
        async with client.subscribe("many.>", start=everywhere) as events:
            await events.opened()
            await client.publish("many.new", b"x")
            await anext(events)
    async with stage.measured("a group is put into all of them"):
        await client.seek("everything", "many.>", "earliest")
    async with stage.measured("groups, with its streams"):
        await client.groups("everything")
    async with stage.measured("two members join it, and leave"):
        await _in_group(client, "everything", "many.>", 100)
    async with stage.measured("a member joins a new group in all of them, and leaves"):
        await _in_group(client, "news", "many.>", 100)
    async with stage.measured("it is dropped"):
        await client.drop_group("everything")
        await asyncio.sleep(5.0)  # what was said of it is withdrawn, some of it at a time


async def _in_group(client: Client, group: str, pattern: str, count: int) -> None:
    async with client.subscribe(pattern, group=group, member="one", start="earliest") as first:
        for _ in range(count):
            await anext(first)
        async with client.subscribe(pattern, group=group, member="two", start="earliest") as second:
            for _ in range(count):
                await anext(second)


# --- many subscriptions, groups and members --------------------------------------------------------------------------


async def subscriptions(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(stage.node.client()) for _ in range(5)]
        count = stage.count(900)
        async with stage.measured("4,500 subscriptions are made"):
            opened = [
                await stack.enter_async_context(client.subscribe(f"s.{i}.{number}.>"))
                for i, client in enumerate(clients)
                for number in range(count)
            ]
            await asyncio.gather(*(each.opened() for each in opened))
        async with stage.measured("they are dropped, with publishes in between"):
            for number, each in enumerate(opened):
                await each.close()
                if number % 100 == 0:
                    await stage.client.publish("busy", b"x")
        async with stage.measured("4,500 of one pattern get an event"), AsyncExitStack() as same:
            readers = [
                await same.enter_async_context(client.subscribe("same")) for client in clients for _ in range(count)
            ]
            await asyncio.gather(*(each.opened() for each in readers))
            await stage.client.publish("same", b"x")
            await asyncio.gather(*(anext(aiter(each)) for each in readers))


async def groups(stage: Stage) -> None:
    client = stage.client
    receipts = await asyncio.gather(*(client.publish(f"g.{number}", b"x") for number in range(1000)))
    place = Position(receipts[0].stream, receipts[0].epoch, 0)
    async with stage.measured("4,000 groups are made"):
        for number in range(stage.count(4000)):
            await client.commit(f"group-{number}", [place])
    async with stage.measured("groups are listed"):
        await client.groups()
    async with stage.measured("an event for one of them"):
        await _in_group(client, "group-1", "g.0", 0)
        for _ in range(100):
            await client.publish("g.0", b"x")
    async with stage.node.client() as other, AsyncExitStack() as stack:
        async with stage.measured("300 members join a group in 1,000 topics"):
            members = [
                await stack.enter_async_context(other.subscribe("g.>", group="all", member=f"m{number}"))
                for number in range(stage.count(300))
            ]
            await asyncio.gather(*(each.opened() for each in members))
            await asyncio.sleep(2.0)
        async with stage.measured("100 publishes meanwhile"):
            for number in range(100):
                await client.publish(f"g.{number}", b"x")
        async with stage.measured("they leave"):
            await stack.aclose()


# --- the mesh --------------------------------------------------------------------------------------------------------


async def keys(stage: Stage) -> None:
    """The node takes up 10,000 keys that a command wrote, and another one joins and learns them."""
    data = stage.directory / "a"
    count = stage.count(9_900)
    with _second(stage.directory, stage.node) as b:
        kept = msgspec.json.decode(read_private(data / FILE) or b"", type=KeyFile)
        made = tuple(record(number) for number in range(count))
        learning = stage.measured("9,900 keys are learned from a peer", b)
        async with stage.measured("9,900 keys are taken up"), learning:
            write_private(data / FILE, msgspec.json.encode(KeyFile(2, kept.keys + made, kept.revoked)))
            async with asyncio.timeout(PATIENCE_S):
                while _good(b) < count:
                    await asyncio.sleep(0.5)
        async with stage.measured("keys are listed"):
            await stage.client.keys()


def _good(at: RunningNode) -> float:
    lines = (line for line in at.metrics().splitlines() if line.startswith('weft_api_keys{state="good"}'))
    return float(next(lines).split()[1])


@contextmanager
def _second(directory: Path, first: RunningNode) -> Iterator[RunningNode]:
    enrolling = ("--peer", first.grpc, "--ca", f"https://{first.ready['ca']}", "--token", "-")
    with up(directory / "b", *enrolling, stdin=token_from(directory / "a", "b"), environ=ENVIRON) as b:
        yield b


async def links(stage: Stage) -> None:
    """A second node has a copy of every stream; its link, and then the node itself, goes and comes back."""
    client, count = stage.client, stage.count(99_000)
    last = _topic(count - 1)
    for first in range(0, count, 1000):
        await asyncio.gather(
            *(client.publish(_topic(number), b"x") for number in range(first, min(first + 1000, count)))
        )
    with _second(stage.directory, stage.node) as b:
        async with _through(b, stage.node) as there:
            copying = stage.measured("links: it copies all streams", b)
            async with stage.measured("links: another node copies 99,000 streams"), copying:
                await _read(there, "many.>", count)
            forgetting = stage.measured("links: the same, at the other node", b)
            async with stage.measured("links: what the other node wants changes, for all of them"), forgetting:
                for _ in range(3):
                    await _read_next(client, there, last)
            async with stage.measured("links: the other node goes"):
                assert b.end() == 0
                await asyncio.sleep(5.0)
    begin_s = time.perf_counter()
    async with stage.measured("links: it comes back with all of them"):
        with up(stage.directory / "b", "--peer", stage.node.grpc, environ=ENVIRON) as b:
            async with _through(b, stage.node) as there:
                await _read_next(client, there, last)
                await asyncio.sleep(2.0)
            told = b.logged()
            assert b.end() == 0
    stage.figures.append(figure("links: the same, at the node that comes back", time.perf_counter() - begin_s, told))


def _through(other: RunningNode, first: RunningNode) -> Connecting:
    """The SDK at another node, with the key of the first one."""
    context = first.context
    assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
    tls = TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
    return connect([other.grpc], token=context.token, tls=tls)


async def _read_next(client: Client, there: Client, topic: str) -> None:
    """An event that is published at one node comes to a subscriber at the other."""
    async with there.subscribe("many.>") as events:
        await events.opened()
        while True:
            await client.publish(topic, b"y")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await anext(events)
                return


async def gossip(stage: Stage) -> None:
    """A node of the mesh tells of 1,000 others, each with a certificate of its own."""
    authority = LocalSource(Authority.open(stage.directory / "a" / "ca"))
    names = [f"node-{number:04}" for number in range(stage.count(1000))]
    mine = authority.enrol(Names(node(MESH, "evil"), ()), time.time())
    others = {name: authority.enrol(Names(node(MESH, name), ()), time.time()) for name in names}
    credentials = grpc.ssl_channel_credentials(mine.root_pem, mine.key_pem.reveal(), mine.chain_pem)
    for version, what in ((1, "1,000 nodes are heard of"), (2, "all of them have something new to say")):
        said = [_signed(others[name], _state(name, names, number, version)) for number, name in enumerate(names)]
        own = _signed(mine, _state("evil", names, -1, version))
        async with grpc.aio.secure_channel(stage.node.grpc, credentials) as channel:
            peer = RawPeer(channel)  # it answers no heartbeats, so its links do not last
            await peer.link("evil", MESH)
            async with stage.measured(what):
                await _tell(peer, own, said)
                async with asyncio.timeout(PATIENCE_S):
                    while len(await stage.client.peers()) < len(names):
                        await asyncio.sleep(0.2)
                await asyncio.sleep(2.0)
    async with stage.measured("explain, peers, publishing meanwhile"):
        for number in range(20):
            await asyncio.gather(
                stage.client.explain("plant.a.b"), stage.client.peers(), stage.client.publish(f"p.{number}", b"x")
            )


async def _tell(peer: RawPeer, own: Any, said: list[Any]) -> None:
    for first in range(0, len(said), GOSSIP_STATES_MAX - 1):
        states = [own, *said[first : first + GOSSIP_STATES_MAX - 1]]
        message = peer_pb.PeerMessage(gossip=peer_pb.PeerGossip(signed=states))
        await peer.control.write(message.SerializeToString())


def _state(name: str, names: list[str], number: int, version: int) -> Any:
    """In a chain that begins at the liar, with links to others."""
    around = [names[at] for at in (number - 1, number + 1, number + 7) if 0 <= at < len(names)]
    neighbours = [*(around if number >= 0 else names[:50]), *(["evil"] if 0 <= number < 50 else [])]
    interest = [f"plant{number}.line{line}.*.temp" for line in range(5 * version)] + ["plant.>"]
    return peer_pb.NodeState(
        node_id=name,
        incarnation=1,
        version=version,
        epoch=1,
        addresses=[f"10.0.{number // 256 % 256}.{number % 256}:7400"],
        neighbours=neighbours,
        interest=interest,
        liveness="LIVENESS_ALIVE",
    )


def _signed(whose: Credentials, state: Any) -> Any:
    content = state.SerializeToString()
    signature = CertificateNotary(MESH, lambda: whose, time.time).sign(PURPOSE + content)
    return peer_pb.SignedState(
        state=content, signature=signature.signature, chain=signature.chain_pem, found="LIVENESS_ALIVE"
    )


# --- all of it -------------------------------------------------------------------------------------------------------

DRIVES: Final[dict[str, Drive]] = {
    each.__name__: each for each in (batches, schemas, topics, subscriptions, groups, keys, links, gossip)
}
ENVIRON: Final = {
    "WEFT_LOG_HELD_UP_S": str(TOLD_S),
    "WEFT_LIMITS_KEY_TOPICS_MAX": "1000000",
    "WEFT_LIMITS_KEY_GROUPS_MAX": "10000",
}


async def drive(name: str, scale: float, directory: Path) -> list[Figure]:
    figures: list[Figure] = []
    with up(directory / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0", environ=ENVIRON) as at:
        async with asyncio.timeout(PATIENCE_S), at.client() as client:
            await DRIVES[name](Stage(at, client, scale, directory, figures))
        assert at.end() == 0, at.said()[-2000:]
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*DRIVES, []], help="only these")
    parser.add_argument("--scale", type=float, default=1.0, help="of the limits that are reached (default 1)")
    parser.add_argument("--rounds", type=int, default=1, help="of which the best counts (default 1)")
    add_formats(parser)
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or DRIVES:
        best: dict[str, Figure] = {}
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as directory:
                for each in uvloop.run(drive(name, options.scale, Path(directory))):
                    best[each.name] = min(each, best.get(each.name, each), key=lambda figure: figure.value)
        figures += best.values()
    report(figures, "longest step of the event loop", options.format)
    return 0 if all(each.reached for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
