"""Checks events before they are published, if their topic has a schema that asks for it (LAK-02).

Small batches are checked in the turn of the loop in which they come, as long as the turn has time left. Others wait in
line and are checked in a thread, one part at a time and in turns, so that a large batch holds up neither the loop nor
other batches. One publisher's events for one topic keep their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from structlog.stdlib import BoundLogger

from weft.core.topics import is_own
from weft.limits import KIB, MATCHES_KEPT_MAX, MIB
from weft.model import Pattern, Topic
from weft.node.figures import SchemaFigures
from weft.port.schemas import Checked, Payloads
from weft.routing import Trie
from weft.schema import Fault
from weft.schema.errors import SchemaBroken
from weft.schema.kinds import Decoder, decoder_of
from weft.schema.registry import Mode, TopicSchema, parsed_versions, specificity
from weft.security import RefusalLog

PAYLOAD_BYTES_MAX: Final = 256 * KIB  # of an event that is checked: at worst 18 ms of the interpreter
AT_ONCE_EVENTS: Final = 1_000  # in the turn in which they come: half a millisecond
AT_ONCE_BYTES: Final = 256 * KIB
TURN_S: Final = 0.002  # of checks in one turn of the loop; then all others wait in line
THOROUGH_AT_ONCE: Final = 64  # thorough checks at once, at 5 to 20 µs each
THOROUGH_BYTES: Final = 4 * KIB  # of payloads together; more get none: a list of numbers takes a millisecond per KiB
PART_EVENTS: Final = 2_000  # checked in one go in a thread; then others have their turn
PART_BYTES: Final = 1 * MIB


@dataclass(frozen=True, slots=True)
class Rule:
    """What is checked for the topics of one pattern."""

    pattern: Pattern
    version: int
    mode: Mode
    decoder: Decoder


@dataclass(slots=True)
class Counts:
    """For one pattern, since the node started."""

    checked: int = 0
    faults: int = 0


@dataclass(slots=True)
class _Job:
    """Payloads that wait in line, or are half done."""

    publisher: object
    topic: Topic
    rule: Rule
    payloads: Payloads
    done: Checked
    first_only: bool
    at: int = 0
    found: dict[int, Fault] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        stops = bool(self.found) and self.first_only and self.rule.mode is Mode.REJECT
        return stops or self.at >= len(self.payloads)

    def next_part(self) -> Sequence[bytes]:
        """The payloads to check next: as many as one go takes, but at least one."""
        end, size = self.at, 0
        most = min(self.at + PART_EVENTS, len(self.payloads))
        part = self.payloads.part(self.at, most)
        while end < most and (end == self.at or size + len(part[end - self.at]) <= PART_BYTES):
            size += len(part[end - self.at])
            end += 1
        return part[: end - self.at]


class SchemaGate:
    """``EventChecks``."""

    def __init__(self, now_s: Callable[[], float], logger: BoundLogger) -> None:
        self._now_s = now_s
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._patterns: Trie[Pattern] = Trie()
        self.rules: object = self._patterns
        self._records: dict[Pattern, TopicSchema] = {}
        self._rules: dict[Pattern, Rule | None] = {}  # of patterns that were asked for
        self._kept: dict[Topic, Rule | None] = {}
        self._counts: dict[Pattern, Counts] = {}
        self._warned = RefusalLog()
        self._lines: dict[tuple[object, Topic], deque[_Job]] = {}  # what waits, with what is being checked at the front
        self._jobs: deque[_Job] = deque()  # the first of each line, in turns
        self._work: asyncio.Task[None] | None = None
        self._turn_end_s: float | None = None  # None: nothing was checked in this turn

    # --- the rules -------------------------------------------------------------------------------------------------

    def set_records(self, records: Iterable[TopicSchema]) -> None:
        """From now on, these schemas hold."""
        before, self._records = self._records, {Pattern(each.pattern): each for each in records}
        kept = {pattern: rule for pattern, rule in self._rules.items() if before[pattern] == self._records.get(pattern)}
        self._rules = kept
        self._kept.clear()
        self._patterns = Trie()
        self.rules = self._patterns
        for pattern in self._records:
            self._patterns.add(pattern, pattern)

    def rule_of(self, topic: Topic) -> Rule | None:
        """The rule for the most specific pattern; mostly there is none, and that is cached."""
        try:
            return self._kept[topic]
        except KeyError:
            pass
        found = () if is_own(topic) else self._patterns.match(topic)
        pattern = min(found, key=specificity, default=None)
        rule = None if pattern is None else self._rule(pattern)
        if len(self._kept) >= MATCHES_KEPT_MAX:
            self._kept.clear()
        self._kept[topic] = rule
        return rule

    def _rule(self, pattern: Pattern) -> Rule | None:
        """Made when it is first needed: a mesh may have a thousand, and a node publishes to the topics of a few."""
        if pattern not in self._rules:
            self._rules[pattern] = self._made(pattern, self._records[pattern])
        return self._rules[pattern]

    def _made(self, pattern: Pattern, record: TopicSchema) -> Rule | None:
        if record.mode is Mode.OFF:
            return None
        latest, others = parsed_versions(record)
        if latest is None:  # a later version of weft wrote it
            self._logger.warning("schema_unreadable", schema=pattern, version=record.latest.number)
            return None
        return Rule(pattern, record.latest.number, record.mode, decoder_of(latest, others))

    def applies(self, topic: Topic) -> bool:
        """True also while events wait whose schema was just removed: later events must not overtake them."""
        return self.rule_of(topic) is not None or any(waiting == topic for _, waiting in self._lines)

    def figures(self) -> Sequence[SchemaFigures]:
        return [SchemaFigures(pattern, each.checked, each.faults) for pattern, each in self._counts.items()]

    # --- checking --------------------------------------------------------------------------------------------------

    def check(self, publisher: object, topic: Topic, payloads: Payloads, done: Checked, *, first_only: bool) -> None:
        rule = self.rule_of(topic)
        line = self._lines.get((publisher, topic))
        if rule is None and line:  # it was removed while others of this publisher wait, and this one follows them
            rule = line[0].rule
        if rule is None:
            done({})
            return
        job = _Job(publisher, topic, rule, payloads, done, first_only)
        if line is not None:
            line.append(job)
        elif self._is_done_at_once(job):
            self._finish(job)
        else:
            self._lines[publisher, topic] = deque([job])
            self._queue(job)

    def _is_done_at_once(self, job: _Job) -> bool:
        payloads = job.payloads
        if len(payloads) > AT_ONCE_EVENTS or payloads.size > AT_ONCE_BYTES or not self._is_turn_young():
            return False
        part = payloads.part(0, len(payloads))
        suspects = job.rule.decoder.suspects(part)
        if not suspects:
            job.at = len(part)
            return True
        if len(suspects) > THOROUGH_AT_ONCE or sum(len(part[at]) for at in suspects) > THOROUGH_BYTES:
            return False
        job.found = _thorough(job.rule.decoder, part, suspects, job.at)
        job.at = len(part)
        return True

    def _is_turn_young(self) -> bool:
        now_s = self._loop.time()
        if self._turn_end_s is None:
            self._turn_end_s = now_s + TURN_S
            self._loop.call_soon(self._begin_turn)
        return now_s <= self._turn_end_s

    def _begin_turn(self) -> None:
        self._turn_end_s = None

    def _finish(self, job: _Job) -> None:
        rule = job.rule
        counts = self._counts.setdefault(rule.pattern, Counts())
        counts.checked += job.at
        counts.faults += len(job.found)
        if not job.found:
            job.done({})
        elif rule.mode is Mode.REJECT:
            told = (job.topic, rule.pattern, rule.version)
            job.done({at: SchemaBroken.of(*told, at, fault) for at, fault in job.found.items()})
        else:
            self._warn(job)
            job.done({})

    def _warn(self, job: _Job) -> None:
        """Once a minute for each schema."""
        first = next(iter(job.found.values()))
        times = self._warned.note("schema", job.rule.pattern, self._now_s())
        if times is not None:
            self._logger.warning(
                "schema_broken",
                topic=job.topic,
                schema=job.rule.pattern,
                version=job.rule.version,
                field=first.field,
                reason=first.reason,
                times=times,
            )

    # --- what waits in line ----------------------------------------------------------------------------------------

    def _queue(self, job: _Job) -> None:
        self._jobs.append(job)
        if self._work is None:
            self._work = asyncio.create_task(self._check_jobs(), name="weft-schema-checks")

    async def _check_jobs(self) -> None:
        while self._jobs:
            parts = self._next_parts()
            looked = await asyncio.to_thread(_look_at_all, [(job.rule.decoder, part, job.at) for job, part in parts])
            for (job, part), found in zip(parts, looked, strict=True):
                job.found |= found
                job.at += len(part)
                if job.is_over:
                    self._leave_line(job)
                    self._finish(job)
                else:
                    self._jobs.append(job)
        self._work = None

    def _next_parts(self) -> list[tuple[_Job, Sequence[bytes]]]:
        """Parts of as many jobs as one go takes: there may be a thousand small ones."""
        parts: list[tuple[_Job, Sequence[bytes]]] = []
        events = size = 0
        while self._jobs and events < PART_EVENTS and size < PART_BYTES:
            job = self._jobs.popleft()
            part = job.next_part()
            parts.append((job, part))
            events += len(part)
            size += sum(map(len, part))
        return parts

    def _leave_line(self, job: _Job) -> None:
        place = (job.publisher, job.topic)
        line = self._lines[place]
        line.popleft()
        if line:
            self._jobs.append(line[0])
        else:
            del self._lines[place]


def _look_at_all(parts: Sequence[tuple[Decoder, Sequence[bytes], int]]) -> list[dict[int, Fault]]:
    return [_look(*part) for part in parts]


def _look(decoder: Decoder, payloads: Sequence[bytes], first: int) -> dict[int, Fault]:
    """Check payloads, in a thread. The interpreter switches threads every half a millisecond, and after each one."""
    sizes_fit = [len(payload) <= PAYLOAD_BYTES_MAX for payload in payloads]
    found: dict[int, Fault] = {}
    if not all(sizes_fit):
        for at, fits in enumerate(sizes_fit):
            if not fits:
                found[first + at] = _too_large(len(payloads[at]))
        payloads = [payload if fits else b"" for payload, fits in zip(payloads, sizes_fit, strict=True)]
    suspects = {at for at in decoder.suspects(payloads) if sizes_fit[at]}
    return found | _thorough(decoder, payloads, suspects, first)


def _thorough(decoder: Decoder, payloads: Sequence[bytes], suspects: set[int], first: int) -> dict[int, Fault]:
    found = ((first + at, decoder.fault(payloads[at])) for at in sorted(suspects))
    return {at: fault for at, fault in found if fault is not None}


def _too_large(size: int) -> Fault:
    return Fault("", f"the payload has {size} bytes; where a schema is checked, the limit is {PAYLOAD_BYTES_MAX}")
