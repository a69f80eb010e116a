"""What a step of the core costs, by how much there is that has nothing to do: ``python -m bench.growth [--markdown]``.

A publish, its sync and its receipt on one topic, in a node that also has 1, 100 and 10,000 links, groups, members,
subscriptions, topics or publishers, none of which wants that event. Nobody should notice them. In one process: the core
alone, with a log in memory; no sockets, no disk.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.figures import Figure, Format, add_formats, report
from rich.console import Console

from weft.core import Broker, BrokerSettings
from weft.core.messages import (
    Edge,
    Effect,
    Input,
    LinkUp,
    MemberKnown,
    Publish,
    PublishAll,
    Receipts,
    StreamKey,
    Subscribe,
    Synced,
    Tick,
    Unsubscribe,
)
from weft.log import MemoryStore, open_store
from weft.membership import NodeState
from weft.model import Batch, Epoch, NodeId, Topic, parse_pattern, parse_topic
from weft.model.batch_header import PRODUCER_BYTES

COUNTS = (1, 100, 10_000)
GOAL = 1.3  # times the cost with one; noise is about a tenth
ROUNDS = 9
SLICE_S = 0.1
CREDIT_BYTES = 1 << 20
STAYING = 500  # of subscriptions that are dropped, the last so many
PREPARE_S_MAX = 10.0  # of CPU, to add 10,000 of a kind
SETTLE_S = 60.0  # of the core's time, for what was prepared to come to rest
STEPS_MAX = 1_000_000
TOPIC = parse_topic("busy.topic")
BATCH = Batch.from_columns([b"x" * 100], 0)
console = Console(stderr=True)


class Core:
    """A node's core, its log, and a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.log = open_store(MemoryStore(), lambda: Epoch(7), disk_reserve_bytes=0)
        self._advanced: dict[StreamKey, int] = {}
        self.log.on_synced(self._advanced.update)
        self.broker = Broker(NodeId("me"), self.log, BrokerSettings(), wall_offset_s=0.0)
        self.broker.start(self.now_s)
        self._request = 0

    def step(self, event: Input) -> list[Effect]:
        return self.broker.step(event, self.now_s)

    def publish(self, topic: Topic = TOPIC, batch: Batch = BATCH) -> None:
        """One event as the runtime does it, timers included."""
        self._request += 1
        self.step(PublishAll([Publish(self._request, topic, 0, batch)]))
        self.broker.get_timer()
        assert any(isinstance(effect, Receipts) for effect in self._sync()), "a synced publish has its receipt"
        self.broker.get_timer()

    def _sync(self) -> list[Effect]:
        ticket = self.log.sync()
        advanced = dict(self._advanced)
        self._advanced.clear()
        return self.step(Synced(ticket, advanced))

    def settle(self) -> None:
        """Let a minute pass: what was prepared comes to rest."""
        end_s = self.now_s + SETTLE_S
        for _ in range(STEPS_MAX):
            timer_s = self.broker.get_timer()
            if self.log.appended != self.log.synced:
                self._sync()
            elif timer_s is not None and timer_s <= end_s:
                self.now_s = max(self.now_s, timer_s)
                self.step(Tick())
            else:
                self.now_s = end_s
                return
        raise AssertionError("the core does not come to rest")


# --- what has nothing to do ------------------------------------------------------------------------------------------


def links(core: Core, number: int) -> None:
    peer = NodeId(f"peer-{number}")
    core.step(MemberKnown(NodeState(peer, 1, 1, Epoch(7), neighbours=(core.broker.me,))))
    core.step(LinkUp(peer))


def groups(core: Core, number: int) -> None:
    _subscribe(core, number, f"idle.{number}.>", f"group-{number}", "member")


def members(core: Core, number: int) -> None:
    _subscribe(core, number, "idle.>", "group", f"member-{number}")


def subscriptions(core: Core, number: int) -> None:
    _subscribe(core, number, f"idle.{number}.>")


def dropped(core: Core, number: int) -> None:
    """A subscription that goes again, while the last few hundred are there."""
    subscriptions(core, number)
    if number >= STAYING:
        core.step(Unsubscribe(number - STAYING))


def topics(core: Core, number: int) -> None:
    core.publish(parse_topic(f"idle.{number}"))


def publishers(core: Core, number: int) -> None:
    """It has published one event to the busy topic, and may send it again."""
    producer = (number + 1).to_bytes(PRODUCER_BYTES, "big")
    core.publish(batch=Batch.from_columns([b"x" * 100], 0, producer=producer, sequence=1))


def _subscribe(core: Core, number: int, pattern: str, group: str = "", member: str = "") -> None:
    core.step(Subscribe(number, parse_pattern(pattern), Edge.LATEST, CREDIT_BYTES, group, member))


KINDS: Sequence[Callable[[Core, int], None]] = (links, groups, members, subscriptions, dropped, topics, publishers)


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass
class Trial:
    kind: str
    wanted: int
    count: int  # as many of them as there was time for
    core: Core
    adding_us: float  # CPU for each, until all was at rest
    times_us: list[float] = field(default_factory=list)

    def run(self) -> None:
        """One slice: microseconds of CPU for each publish. Other programs on the machine do not count."""
        begin = time.thread_time()
        done = 0
        while (took_s := time.thread_time() - begin) < SLICE_S:
            for _ in range(10):
                self.core.publish()
            done += 10
        self.times_us.append(took_s / done * 1e6)

    @property
    def publish_us(self) -> float:
        return statistics.median(self.times_us)


def prepared(kind: Callable[[Core, int], None], wanted: int) -> Trial:
    """Add so many, or as many as there is time for, if adding one costs more the more there are."""
    begin = time.thread_time()
    core = Core()
    count = 0
    while count < wanted and time.thread_time() - begin < PREPARE_S_MAX:
        kind(core, count)
        count += 1
    core.settle()
    core.publish()
    took_s = time.thread_time() - begin
    console.print(f"{count:,} of {wanted:,} {kind.__name__}: prepared in {took_s:.1f} s", style="dim")
    return Trial(kind.__name__, wanted, count, core, took_s / count * 1e6)


def figures(cases: Sequence[Trial]) -> list[Figure]:
    found = []
    for kind in dict.fromkeys(case.kind for case in cases):
        few, *_, many = same = [case for case in cases if case.kind == kind]
        publish = ", ".join(f"{case.publish_us:,.0f} µs with {case.count:,}" for case in same)
        adding = ", ".join(f"{case.adding_us:,.0f} µs each of {case.count:,}" for case in same)
        if many.count < many.wanted:
            adding += f"; there was no time for {many.wanted:,}"
        growth = many.publish_us / few.publish_us
        found.append(Figure(f"{kind}, cost of a publish", growth, "times", GOAL, ceiling=True, note=publish))
        some = same[len(same) // 2]  # with one alone, the start of the core is most of it
        found.append(Figure(f"{kind}, cost of adding one", many.adding_us / some.adding_us, "times", note=adding))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="how many of each kind")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    cases = [prepared(kind, count) for kind in KINDS if arguments.only in kind.__name__ for count in arguments.counts]
    gc.collect()
    gc.freeze()
    for number in range(arguments.rounds):
        console.print(f"round {number + 1} of {arguments.rounds}", style="dim")
        for case in cases:
            case.run()
    report(figures(cases), "growth, by what has nothing to do", output)


if __name__ == "__main__":
    main()
