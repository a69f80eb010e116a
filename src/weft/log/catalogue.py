"""The streams of a log, found by name, by number and by topic."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from weft.log.errors import UnknownStream
from weft.log.parts import joined, whole_parts
from weft.log.records import StreamState
from weft.model import Epoch, Pattern, Stream, Topic, matches
from weft.model.topic import ONE, REST

StreamKey: TypeAlias = tuple[Stream, Epoch]


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What the log has of a stream: the offsets from ``start`` up to but not including ``end``.

    ``late_us`` is set for a copy that began in the middle, because nobody here wanted events from before this time.
    """

    stream: Stream
    epoch: Epoch
    start: int
    end: int
    bytes: int
    latest_us: int
    late_us: int | None = None


def info_of(state: StreamState) -> StreamInfo:
    """Describe the durable part of a stream."""
    if state.past is None:  # as for most streams
        first, retained = state, state.bytes_end - state.bytes_start
    else:
        parts = whole_parts(state)
        first, retained = parts[0], sum(part.bytes_end - part.bytes_start for part in parts)
    return StreamInfo(state.stream, state.epoch, first.start, state.durable, retained, state.latest_us, first.late_us)


def _place(state: StreamState) -> StreamKey:
    return state.stream, state.epoch


def _is_topic(pattern: Pattern) -> bool:
    """Whether the pattern is a plain topic, which matches only itself."""
    return ONE not in pattern and REST not in pattern


class Catalogue:
    """Streams are added and never removed. The log's lock guards everything except looking up a stream by its name."""

    def __init__(self, states: Iterable[StreamState], numbers_used: Iterable[int]) -> None:
        self.by_name: dict[tuple[Stream, Epoch], StreamState] = {}
        self.by_id: dict[int, StreamState] = {}
        self._by_topic: dict[Topic, list[StreamState]] = {}
        by_name: dict[StreamKey, list[StreamState]] = {}
        for state in states:
            by_name.setdefault((state.stream, state.epoch), []).append(state)
        for parts in by_name.values():
            self._add(joined(parts))
            self.by_id.update((part.id, part) for part in parts)
        self._ordered: list[StreamKey] = sorted(self.by_name)
        self.next_id = max((0, *self.by_id, *numbers_used)) + 1

    def add(self, state: StreamState) -> None:
        self._add(state)
        insort(self._ordered, (state.stream, state.epoch))

    def add_past(self, behind: StreamState, part: StreamState) -> None:
        behind.past = part
        self.by_id[part.id] = part
        self.next_id = part.id + 1

    def _add(self, state: StreamState) -> None:
        self.by_name[(state.stream, state.epoch)] = state
        self.by_id[state.id] = state
        self._by_topic.setdefault(state.stream.topic, []).append(state)
        self.next_id = state.id + 1

    def matching(self, pattern: Pattern | None) -> list[StreamState]:
        if pattern is not None and _is_topic(pattern):
            return self._of_topic(Topic(pattern))
        topics = [topic for topic in self._by_topic if pattern is None or matches(pattern, topic)]
        return sorted((state for topic in topics for state in self._by_topic[topic]), key=_place)

    def _of_topic(self, topic: Topic) -> list[StreamState]:
        return sorted(self._by_topic.get(topic, ()), key=_place)

    def page(
        self, pattern: Pattern, after: StreamKey | None, look_max: int
    ) -> tuple[list[StreamState], StreamKey | None]:
        """Look at ``look_max`` streams in order. Return those that match, and where to go on (None at the end). For a
        plain topic, only the streams of that topic are looked at."""
        if _is_topic(pattern):
            states = [each for each in self._of_topic(Topic(pattern)) if after is None or _place(each) > after]
            return states[:look_max], _place(states[look_max - 1]) if len(states) > look_max else None
        first = 0 if after is None else bisect_right(self._ordered, after)
        looked = self._ordered[first : first + look_max]
        found = [self.by_name[key] for key in looked if matches(pattern, key[0].topic)]
        return found, looked[-1] if first + look_max < len(self._ordered) else None

    def unknown(self, stream: Stream, epoch: Epoch) -> UnknownStream:
        """Make the error that says which epochs of the stream there are instead."""
        epochs = sorted(each.epoch for each in self._by_topic.get(stream.topic, ()) if each.stream == stream)
        return UnknownStream(f"no stream {stream} in epoch {epoch}", epochs=epochs or "none")
