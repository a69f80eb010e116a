"""What a replay will do, step by step. Pure: it works with counts that Spark has made before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from weft.errors import PeerError, UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX, MIB, OFFSET_MAX, PARTITIONS_MAX
from weft.model import parse_node_id, parse_topic
from weft.spark.staging import SINK_TARGETS_MAX

REPLAY_STRETCH_EVENTS: Final = 100_000  # offsets in a stretch, which is never divided between steps
REPLAY_STRETCHES_MAX: Final = 100_000  # in a plan, which has to fit one event: 10 G events in stretches of 100,000
REPLAY_STEP_BYTES: Final = 256 * MIB  # staged and sorted in one step, unless a single stretch has more
REPLAY_STEP_TARGETS_MAX: Final = SINK_TARGETS_MAX // 2  # topics and partitions; one write takes twice as many


class BadPlan(PeerError):
    """What is stored under the name of a replay is not a plan."""


class StreamKey(NamedTuple):
    """A stream and its epoch. The order of keys puts a stream's epochs one after the other."""

    topic: str
    origin: str
    partition: int
    epoch: int


class Stretch(NamedTuple):
    """Events of a stream between two offsets, both included; one row of the count that Spark makes."""

    stream: StreamKey
    first_offset: int
    last_offset: int
    events: int
    size_bytes: int
    first_us: int
    last_us: int


class Step(msgspec.Struct, frozen=True):
    """Stretches that are written together."""

    stretches: tuple[Stretch, ...]

    @property
    def events(self) -> int:
        return sum(stretch.events for stretch in self.stretches)

    @property
    def first_us(self) -> int:
        return min(stretch.first_us for stretch in self.stretches)

    @property
    def last_us(self) -> int:
        return max(stretch.last_us for stretch in self.stretches)


class Plan(msgspec.Struct, frozen=True):
    """All steps, in order."""

    steps: tuple[Step, ...]

    def stretches(self) -> Iterator[Stretch]:
        for step in self.steps:
            yield from step.stretches

    @property
    def events(self) -> int:
        return sum(step.events for step in self.steps)

    @property
    def size_bytes(self) -> int:
        return sum(stretch.size_bytes for stretch in self.stretches())


def plan(found: Iterable[Stretch], step_events: int) -> Plan:
    """Divide the stretches into steps of about ``step_events`` events, within the limits of one write. A stretch is
    never cut."""
    steps: list[Step] = []
    together: list[Stretch] = []
    events = size_bytes = 0
    targets: set[tuple[str, int]] = set()
    for stretch in _by_time(found):
        events += stretch.events
        size_bytes += stretch.size_bytes
        target = stretch.stream.topic, stretch.stream.partition
        targets.add(target)
        if together and (
            events > step_events or size_bytes > REPLAY_STEP_BYTES or len(targets) > REPLAY_STEP_TARGETS_MAX
        ):
            steps.append(Step(tuple(together)))
            together, events, size_bytes, targets = [], stretch.events, stretch.size_bytes, {target}
        together.append(stretch)
    if together:
        steps.append(Step(tuple(together)))
    return Plan(tuple(steps))


def _by_time(found: Iterable[Stretch]) -> list[Stretch]:
    """Order stretches by the time of their first event, but keep each stream's stretches in order.

    Publishers choose timestamps. If a later stretch of a stream has an earlier time, it counts as having the time of
    the stretch before it.
    """
    timed: list[tuple[int, Stretch]] = []
    stream, latest_us = None, 0
    for stretch in sorted(found):
        place = stretch.stream[:3]
        latest_us = stretch.first_us if place != stream else max(latest_us, stretch.first_us)
        stream = place
        timed.append((latest_us, stretch))
    return [stretch for _, stretch in sorted(timed)]


def encode(made: Plan) -> bytes:
    data = msgspec.json.encode(made)
    if len(data) > EVENT_PAYLOAD_BYTES_MAX:
        raise UsageError(
            "too much for one replay: choose fewer topics or a shorter time, or larger steps",
            plan_bytes=len(data),
            limit=EVENT_PAYLOAD_BYTES_MAX,
        )
    return data


def decode_untrusted(data: bytes) -> Plan:
    """The plan that an earlier run has left; raise only BadPlan."""
    try:
        made = msgspec.json.decode(data, type=Plan)
        _check(list(made.stretches()))
    except (msgspec.MsgspecError, UsageError, UnicodeError, RecursionError) as error:
        raise BadPlan(f"not a plan of a replay: {error}") from None
    return made


def _check(stretches: Sequence[Stretch]) -> None:
    if len(stretches) > REPLAY_STRETCHES_MAX:
        raise BadPlan("a plan over its bounds", stretches=len(stretches), limit=REPLAY_STRETCHES_MAX)
    for stretch in stretches:
        parse_topic(stretch.stream.topic)
        parse_node_id(stretch.stream.origin)
        numbers = (stretch.first_offset, stretch.last_offset, stretch.events, stretch.size_bytes, stretch.stream.epoch)
        if min(numbers) < 0 or max(numbers) > OFFSET_MAX or not 0 <= stretch.stream.partition < PARTITIONS_MAX:
            raise BadPlan("a stretch over its bounds", stretch=stretch)
        if not stretch.events or stretch.first_offset > stretch.last_offset:
            raise BadPlan("a stretch without events", stretch=stretch)


def wait_s(events: int, elapsed_s: float, events_per_s: float | None) -> float:
    """How long to wait after this many events, to stay within the rate on average."""
    return 0.0 if events_per_s is None else max(events / events_per_s - elapsed_s, 0.0)
