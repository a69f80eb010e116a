"""What is to be read: ranges of streams, within limits, cut into Spark's partitions; and what is gone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.limits import MIB
from weft.spark.holdings import Held, Holdings
from weft.spark.offsets import Offsets, Place
from weft.spark.options import SPARK_PARTITIONS_MAX

SPARK_PARTITION_BYTES: Final = 64 * MIB  # of one task: a quarter of a second of work, and little to repeat
SPARK_PARTITION_BYTES_MIN: Final = 1 * MIB  # less is not worth a task, unless option minPartitions asks for more
SPARK_PARTITIONS: Final = 8  # tasks for large amounts, unless the option minPartitions asks for more


class DataLoss(UsageError):
    """Events that were to be read are gone; option failOnDataLoss says whether that ends the job."""


class Loss(NamedTuple):
    """Offsets that were to be read and are gone. Without an end, the whole stream is gone."""

    place: Place
    first: int
    end: int | None

    def __str__(self) -> str:
        if self.end is None:
            return f"{self.place} is gone altogether; offset {self.first} was to be read next"
        return f"{self.place} offsets {self.first} to {self.end - 1} ({self.end - self.first} events)"


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one stream, and the nodes that have them all."""

    place: Place
    first: int
    end: int
    addresses: tuple[str, ...]
    event_bytes: int

    def __len__(self) -> int:
        return self.end - self.first


# --- what is gone, and what can be read ------------------------------------------------------------------------------


def losses(offsets: Offsets, held: Holdings) -> list[Loss]:
    """For each stream, what is missing between its offset and the next event that some node has."""
    found = []
    for place, offset in sorted(offsets.items()):
        if place not in held:
            found.append(Loss(place, offset, None))
        elif (there := held[place].next_from(offset)) > offset:
            found.append(Loss(place, offset, there))
    return found


def passed_over(offsets: Offsets, held: Holdings) -> dict[Place, int]:
    """The same streams, with offsets moved behind what is gone."""
    return {place: held[place].next_from(offset) if place in held else offset for place, offset in offsets.items()}


def readable(offsets: Offsets, held: Holdings) -> dict[Place, int]:
    """How far each of these streams can be read now without a gap; never less than its offset."""
    return {place: held[place].reach(offset) if place in held else offset for place, offset in offsets.items()}


def everything(held: Holdings) -> list[Range]:
    """Ranges of all that the nodes have."""
    start = {place: each.earliest for place, each in held.items()}
    end = {place: each.latest for place, each in held.items()}
    return ranges(start, end, held)[0]


# --- limits ----------------------------------------------------------------------------------------------------------


def limited(
    start: Offsets, end: Offsets, held: Holdings, *, events_max: int | None = None, bytes_max: int | None = None
) -> dict[Place, int]:
    """Ends within the limits for one micro-batch, which the streams share fairly. At least one event is allowed, or
    nothing would ever move."""
    wanted = {place: offset - start[place] for place, offset in end.items() if offset > start.get(place, offset)}
    taken = wanted
    if events_max is not None:
        taken = fair_shares(taken, events_max)
    if bytes_max is not None:
        sizes = {place: held[place].event_bytes for place in taken}
        shares = fair_shares({place: count * sizes[place] for place, count in taken.items()}, bytes_max)
        taken = {place: share // sizes[place] for place, share in shares.items()}
    if wanted and not any(taken.values()):
        taken = {max(wanted, key=lambda place: (wanted[place], place)): 1}
    return {place: start[place] + taken.get(place, 0) if place in wanted else offset for place, offset in end.items()}


def is_worth_waiting(new_events: int, events_min: int | None, waited_s: float, delay_s: float) -> bool:
    """Whether it is better to make the micro-batch later, with more events in it."""
    return events_min is not None and 0 < new_events < events_min and waited_s < delay_s


def fair_shares(wanted: Mapping[Place, int], limit: int) -> dict[Place, int]:
    """Those that want little get it all, and the others share the rest evenly. If there is too little for everybody,
    the one that wants most is served."""
    shares = {}
    ordered = sorted(wanted, key=lambda place: (wanted[place], place))
    for number, place in enumerate(ordered):
        shares[place] = min(wanted[place], limit // (len(ordered) - number))
        limit -= shares[place]
    return shares


# --- partitions ------------------------------------------------------------------------------------------------------


def ranges(start: Offsets, end: Offsets, held: Holdings) -> tuple[list[Range], list[Loss]]:
    """The ranges to read, and what cannot be read. A stream that is only in ``end`` begins there, so nothing of it is
    read yet. A stream that is only in ``start`` appeared when Spark asked again where its first batch begins: it is
    read in a later batch."""
    found: list[Range] = []
    lost: list[Loss] = []
    for place in sorted(start):
        first, last = start[place], end.get(place)
        if last is not None and first >= last:
            continue
        if place not in held:
            lost.append(Loss(place, first, None))
            continue
        if last is None:
            continue
        for part in _covered(place, first, last, held[place]):
            if part.addresses:
                found.append(part)
            else:
                lost.append(Loss(place, part.first, part.end))
    return found, lost


def _covered(place: Place, first: int, end: int, held: Held) -> Iterator[Range]:
    """Split the range into parts, each of which some node has completely. No node has a part without addresses."""
    while first < end:
        having = [copy for copy in held.copies if copy.first <= first < copy.end]
        if having:
            last = min(end, max(copy.end for copy in having))
        else:
            last = min(end, min((copy.first for copy in held.copies if copy.first > first), default=end))
        addresses = tuple(copy.address for copy in having if copy.end >= last)
        yield Range(place, first, last, addresses, held.event_bytes)
        first = last


def split(found: Sequence[Range], partitions_min: int | None) -> list[tuple[Range, ...]]:
    """Divide ranges among tasks, about equally by bytes: large ranges are cut, small ones share a task.

    Think of all events in a line, stream after stream: the line is cut into equal parts.
    """
    total = sum(len(each) * each.event_bytes for each in found)
    count = _task_count(total, sum(map(len, found)), partitions_min)
    cuts = [total * number // count for number in range(1, count)]
    parts: list[list[Range]] = [[]]
    passed = 0
    for each in found:
        following = passed + len(each) * each.event_bytes
        rest = each
        while cuts and cuts[0] < following:
            at = each.first - (passed - cuts.pop(0)) // each.event_bytes  # the first event from the cut on
            if rest.first < at:
                parts[-1].append(replace(rest, end=at))
                rest = replace(rest, first=at)
            parts.append([])
        if len(rest):
            parts[-1].append(rest)
        passed = following
    return [tuple(part) for part in parts if part]


def _task_count(total_bytes: int, events: int, partitions_min: int | None) -> int:
    by_size = -(-total_bytes // SPARK_PARTITION_BYTES)
    least = partitions_min or min(SPARK_PARTITIONS, -(-total_bytes // SPARK_PARTITION_BYTES_MIN))
    return max(1, min(max(by_size, least), events, SPARK_PARTITIONS_MAX))


def describe(lost: Iterable[Loss], shown_max: int = 10) -> str:
    """The text for an error or a warning: the first few losses, and how many more there are."""
    found = list(lost)
    lines = "; ".join(map(str, found[:shown_max]))
    return lines if len(found) <= shown_max else f"{lines}; and {len(found) - shown_max} more streams"
