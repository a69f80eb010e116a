"""Says what is wrong with a run. It knows what was promised and what was written down, and nothing of weft.

Each check takes the history and gives findings. A run is good if there are none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tools.chaos.history import SINK, SUNK, Acked, History, Place, Seen, of_load, sunk

EXAMPLES: Final = 5  # of each finding
SHUT_OUT_S: Final = 90.0  # for a revoked key to be refused everywhere, faults or not
CALM_S: Final = 60.0  # after a fault, for whatever still follows from it
Check = Callable[[History], "Iterator[Finding]"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind`` names the promise that was broken."""

    kind: str
    text: str


def check(history: History) -> list[Finding]:
    return [finding for each in CHECKS for finding in each(history)]


def lost(history: History) -> Iterator[Finding]:
    """What has a receipt is in its origin's log, under the same offset; or a repair said that it is gone from there.
    Then a receipt for two nodes still means that another one has it."""
    at = {node: {seen.place: seen.id for seen in log} for node, log in history.logs.items()}
    for acked in history.acked:
        if acked.place.origin not in at:
            yield Finding("lost", f"nobody knows what {acked.place.origin} has: its log was not read")
            return
        own = at[acked.place.origin].get(acked.place)
        if own == acked.id:
            continue
        if own is not None:
            yield Finding("lost", f"{acked.id} has the receipt {acked.place}, where {own} is")
        elif not _is_given_up(history, acked.place):
            yield Finding("lost", f"{acked.id} has the receipt {acked.place}, and is not there")
        elif acked.copies > 1 and not any(log.get(acked.place) == acked.id for log in at.values()):
            yield Finding("lost", f"{acked.id} has a receipt for {acked.copies} nodes, {acked.place}, and none has it")


def _is_given_up(history: History, place: Place) -> bool:
    spans = history.given_up.get(place.origin, [])
    return any(first.stream == place.stream and first <= place <= last for first, last in spans)


def differing(history: History) -> Iterator[Finding]:
    """Two nodes never have different events at one place, and nobody gets another one than the nodes have."""
    known: dict[Place, str] = {}
    sources = [*history.logs.items(), *history.delivered.items(), ("the group", history.handled)]
    sources += [("the table", history.table)] if history.table is not None else []
    for who, seen in sources:
        for each in seen:
            if known.setdefault(each.place, each.id) != each.id:
                yield Finding("differs", f"{each.place} is {each.id} for {who}, and {known[each.place]} for another")


def invented(history: History) -> Iterator[Finding]:
    """Whatever is anywhere was published by somebody."""
    sources: dict[str, Iterable[Seen]] = {**history.logs, **history.delivered, "the group": history.handled}
    for who, seen in sources.items():
        strange = {each.id: each.place for each in of_load(list(seen)) if each.id not in history.tried}
        for mark, place in strange.items():
            yield Finding("invented", f"{who} has {mark!r} at {place}, which nobody published")


def doubled(history: History) -> Iterator[Finding]:
    """A retry never makes a second copy, and a datagram is taken once. A Coaty agent's word may come twice, by a
    message id that tells, while bridges come and go. What the sink writes may come twice once the node that knows its
    numbers has given something up."""
    places: dict[str, set[Place]] = defaultdict(set)
    forgetful = {origin for origin in history.logs if history.given_up.get(origin)}
    for log in history.logs.values():
        for each in of_load(log):
            if each.place.topic.startswith("coaty."):
                continue
            if not (each.id.startswith(f"#{SINK}/") and each.place.origin in forgetful):
                places[each.id].add(each.place)
    for mark, found in places.items():
        if len(found) > 1:
            yield Finding("doubled", f"{mark} is at {len(found)} places: {sorted(found)[:EXAMPLES]}")


def reordered(history: History) -> Iterator[Finding]:
    """What one publisher said is in each stream in the order in which it said it; readers get streams in order, and
    no event twice."""
    for node, log in history.logs.items():
        last: dict[tuple[object, str], tuple[int, Place]] = {}
        for each in sorted(of_load(log), key=lambda seen: seen.place):
            if not each.place.topic.startswith("chaos."):
                continue  # datagrams and agents' words overtake each other
            door, _, number = each.id.strip("#").partition("/")
            if not number.isdigit() or door == SINK:
                continue  # invented, and said there; Spark takes several streams side by side
            before = last.get((each.place.stream, door))
            if before is not None and int(number) <= before[0]:
                yield Finding("reordered", f"at {node}, {each.id} at {each.place} is behind {door}/{before[0]}")
            last[each.place.stream, door] = (int(number), each.place)
    for reader, seen in history.delivered.items():
        ends: dict[object, int] = {}
        for each in seen:
            if each.place.offset <= ends.get(each.place.stream, -1):
                yield Finding("reordered", f"{reader} got {each.place} behind offset {ends[each.place.stream]}")
            ends[each.place.stream] = max(each.place.offset, ends.get(each.place.stream, -1))


def undelivered(history: History) -> Iterator[Finding]:
    """Readers of everything have got everything that has a receipt, but what a repair gave up."""
    sink = [each for node, log in history.logs.items() for each in log if each.place.origin == node and _of_sink(each)]
    for reader, seen in history.delivered.items():
        got = {each.place for each in seen}
        everything: list[Acked | Seen] = [*history.acked, *sink]
        there = (each for each in everything if each.place.topic.startswith("chaos."))
        missing = [each for each in there if each.place not in got and not _is_given_up(history, each.place)]
        yield from _few("undelivered", [f"{reader} never got {each.id} at {each.place}" for each in missing])


def _of_sink(seen: Seen) -> bool:
    return seen.place.topic.startswith(f"chaos.{SINK}.")


def unsunk(history: History) -> Iterator[Finding]:
    """The sink has written each event that it reads; as many may be missing as a repair gave up of what it wrote."""
    if not history.has_sink:
        return
    logs = [(node, each) for node, log in history.logs.items() for each in log]
    written = {each.id for _, each in logs if _of_sink(each)}
    read = [each for node, each in logs if each.place.origin == node and each.id.startswith(f"#{SUNK}/")]
    missing = [f"the sink has not written {each.id} at {each.place}" for each in read if sunk(each.id) not in written]
    excused = sum(
        last.offset - first.offset + 1
        for spans in history.given_up.values()
        for first, last in spans
        if first.topic.startswith(f"chaos.{SINK}.")
    )
    if len(missing) > excused:
        yield from _few("unsunk", missing)


def unhandled(history: History) -> Iterator[Finding]:
    """The group has handled everything that its topics have, or put it aside as a dead letter."""
    done = {each.id for each in history.handled} | history.dead
    seen = {each.id: each.place for log in history.logs.values() for each in log}
    missing = [
        f"{mark} at {place} was neither handled nor put aside"
        for mark, place in sorted(seen.items())
        if place.topic.startswith(history.group_topics) and mark not in done
    ]
    yield from _few("unhandled", missing)


def handled_again(history: History) -> Iterator[Finding]:
    """At least once is more than once around faults only: between the two times, or shortly before, there was one."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in history.handled:
        times[each.id].append(each.at)
    for mark, at in times.items():
        first, last = min(at), max(at)
        if len(at) > 1 and not any(began < last and first < ended + CALM_S for began, ended in history.faults.values()):
            yield Finding("handled-again", f"{mark} was handled {len(at)} times while nothing was wrong")


def diverged(history: History) -> Iterator[Finding]:
    """All nodes have the same of each key; it was written by somebody, and nothing acknowledged is later."""
    for node, why in history.unasked.items():
        yield Finding("unasked", f"{node} did not tell what it has when the faults were over: {why}")
    keys = sorted({key for bucket in history.buckets.values() for key in bucket} | set(history.puts))
    for key in keys:
        values = {node: bucket.get(key) for node, bucket in history.buckets.items()}
        if len(set(values.values())) > 1:
            yield Finding("diverged", f"nodes differ on {key}: {values}")
        for node, entry in values.items():
            if entry is not None and entry[0] not in history.puts.get(key, set()):
                yield Finding("invented", f"{node} has {entry[0]!r} as {key}, which nobody wrote")
    for key, value, revision in history.puts_acked:
        for node, bucket in history.buckets.items():
            entry = bucket.get(key)
            if entry is None or _revision(entry[1]) < _revision(revision):
                yield Finding("lost", f"{node} has {entry} as {key}; {value} was acknowledged at {revision}")


def _revision(text: str) -> tuple[int, int, str]:
    """``TIME.COUNT@NODE``, in the order by which the last one wins."""
    clock, _, node = text.partition("@")
    time_ms, _, count = clock.partition(".")
    return int(time_ms), int(count), node


def untabled(history: History) -> Iterator[Finding]:
    """The table has what the logs of the origins have: each event once, no other."""
    if history.table is None:
        return
    rows = Counter(each.place for each in history.table)
    there = {each.place for node, log in history.logs.items() for each in log if each.place.origin == node}
    there = {place for place in there if place.topic.startswith("chaos.")}
    yield from _few("table", [f"the table has no {place}" for place in sorted(there - set(rows))])
    strange = {place for place in set(rows) - there if not _is_given_up(history, place)}
    yield from _few("table", [f"the table has {place}, and its origin's log has not" for place in sorted(strange)])
    yield from _few("table", [f"the table has {place} {count} times" for place, count in rows.items() if count > 1])


def let_in(history: History) -> Iterator[Finding]:
    """A revoked key publishes nothing."""
    for acked in history.acked:
        door = acked.id.strip("#").partition("/")[0]
        if door in history.revoked and acked.at > history.revoked[door] + SHUT_OUT_S:
            late_s = acked.at - history.revoked[door]
            yield Finding("let-in", f"{acked.id} has a receipt of {late_s:.0f} s after its key was revoked")


def _few(kind: str, texts: list[str]) -> Iterator[Finding]:
    for text in texts[:EXAMPLES]:
        yield Finding(kind, text)
    if len(texts) > EXAMPLES:
        yield Finding(kind, f"... and {len(texts) - EXAMPLES} more")


CHECKS: Final[tuple[Check, ...]] = (
    lost,
    differing,
    invented,
    doubled,
    reordered,
    undelivered,
    unsunk,
    unhandled,
    handled_again,
    diverged,
    untabled,
    let_in,
)
