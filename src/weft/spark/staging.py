"""Stage, decide, apply: how a write happens exactly once, however often Spark tries. Pure; ``sink_steps`` does it.

1. Tasks **stage**: each makes batches of its rows, ready for their topics, and publishes them as events to
``weft.staging.<owner>.<id>``. What a failed, repeated or speculative task leaves there is garbage, because no decision
names it.

2. The driver **decides**: one event in ``weft.decisions.<owner>.<id>`` lists the staged batches that count, by offsets.
The event's producer sequence is the number of the write, so the node itself allows only one decision for each write.
The node refuses a second driver and tells it where the first decision is; that driver then follows the first decision.

3. The driver **applies** the decision: it publishes the listed batches. The sequence of each follows from the number of
the write and the batch's place in the list. The node recognises batches that it already has, so applying a decision a
second time adds only what is missing. At the end a second event says that the write is done. From then on, the staged
batches are no longer needed.

All of it happens at one node, because nodes do not share what they know about producers. The id is that of a streaming
query, or is derived from the name that an application gave its writes. The owner is the name of the job's API key, as
the node reports it: nobody else may read or write there (SEC-03). A decision is also sealed with the key itself,
because the batches it lists are published with the rights of that key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest
from typing import Final, NamedTuple, TypeAlias

import msgspec

from weft.errors import PeerError, UsageError
from weft.limits import EVENT_PAYLOAD_BYTES_MAX, OFFSET_MAX, PARTITIONS_MAX
from weft.model import Epoch, NodeId, Stream, Topic, parse_node_id, parse_topic
from weft.model.batch_header import PRODUCER_BYTES
from weft.model.topic import OWNED_ID_BYTES, OwnedKind, owned_topic

SINK_STAGED_MAX: Final = 1 << 18  # batches in one write: 256 GiB of rows of one topic; their list fits an event
SINK_TARGETS_MAX: Final = 1 << 14  # topics and partitions in one write: a log remembers 100,000 producers' batches
ID_CHARS: Final = 2 * OWNED_ID_BYTES
NUMBER_MAX: Final = (1 << 44) - 1  # of a write: together with a place in its list it fits the 64 bits of a sequence
SEAL_BYTES: Final = 32


class BadDecision(PeerError):
    """An event in a job's decisions topic is not a decision."""


class OthersDecision(BadDecision):
    """A decision that was made with another key."""


class Target(NamedTuple):
    """Where rows go. A tuple: there is one for every staged batch."""

    topic: Topic
    partition: int


class StagedBatch(NamedTuple):
    """A batch for a target, and where it is staged. A tuple for the same reason as ``Target``."""

    target: Target
    origin: NodeId
    epoch: Epoch
    offset: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What one task has staged, in the order of its rows."""

    task: int
    batches: tuple[StagedBatch, ...]


class Decided(msgspec.Struct, frozen=True, tag="decided", tag_field="is"):
    """What a write consists of. ``staged`` has, in order, each batch's index in ``targets`` and its staging offset."""

    number: int
    origin: str
    epoch: int
    targets: tuple[tuple[str, int], ...]
    staged: tuple[tuple[int, int], ...]


class Applied(msgspec.Struct, frozen=True, tag="applied", tag_field="is"):
    """A write is complete: all of it has been published to its topics."""

    number: int


Record: TypeAlias = Decided | Applied


@dataclass(frozen=True, slots=True)
class Writing:
    """The writes of one job, known by its owner and an id: the topics they use, and how they are numbered."""

    owner: str
    id: str

    @property
    def staging(self) -> Topic:
        return owned_topic(OwnedKind.STAGING, self.owner, self.id)

    @property
    def decisions(self) -> Topic:
        return owned_topic(OwnedKind.DECISIONS, self.owner, self.id)

    def staging_stream(self, decided: Decided) -> Stream:
        return Stream(self.staging, NodeId(decided.origin), 0)

    @property
    def decider(self) -> bytes:
        """The producer of decisions. It does not depend on the key, so decisions made with an old key are found too."""
        return _digest("decide", self.id)[:PRODUCER_BYTES]

    def applier(self, secret: bytes) -> bytes:
        """The producer of what is published to the targets. It is secret: somebody who could guess it could use up its
        sequences there."""
        return hmac_digest(secret, _digest("apply", self.id), "sha256")[:PRODUCER_BYTES]


def query_id(query: str) -> str:
    """The id for a streaming query, from the id in its checkpoint."""
    return _digest("query", query).hex()[:ID_CHARS]


def application_id(name: str) -> str:
    """The id for an application that names and numbers its writes."""
    return _digest("application", name).hex()[:ID_CHARS]


def decided_sequence(number: int) -> int:
    return 2 * number


def applied_sequence(number: int) -> int:
    return 2 * number + 1


def batch_sequence(number: int, index: int) -> int:
    """The sequence of the batch at this place in a decision. It is above those of all earlier writes, so no state has
    to be kept."""
    return number * SINK_STAGED_MAX + index


# --- deciding --------------------------------------------------------------------------------------------------------


def decide(number: int, tasks: Iterable[Staged]) -> Decided:
    """What is to be written: all that these tasks staged, in the order of the tasks and of their rows."""
    if not 0 <= number <= NUMBER_MAX:
        raise UsageError("no such number of a write", number=number, limit=NUMBER_MAX)
    batches = [batch for staged in sorted(tasks, key=lambda staged: staged.task) for batch in staged.batches]
    homes = {(batch.origin, batch.epoch) for batch in batches}
    if len(homes) > 1:
        raise UsageError(
            "rows of one write were staged at different nodes, or a node lost its log meanwhile: "
            "the first of the nodes has to be one node's own address; run it again",
            staged_at=", ".join(sorted(f"{origin} epoch {epoch}" for origin, epoch in homes)),
        )
    origin, epoch = homes.pop() if homes else (NodeId(""), Epoch(0))
    targets = {target: place for place, target in enumerate(dict.fromkeys(batch.target for batch in batches))}
    for what, have, limit in (("batches", len(batches), SINK_STAGED_MAX), ("targets", len(targets), SINK_TARGETS_MAX)):
        if have > limit:
            raise UsageError(
                f"too many {what} in one write: write less at a time (of a stream, by maxEventsPerTrigger)",
                have=have,
                limit=limit,
            )
    staged = tuple((targets[batch.target], batch.offset) for batch in batches)
    return Decided(number, origin, epoch, tuple(targets), staged)


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)


def decode_untrusted(data: bytes) -> Record:
    """The record that these bytes are; raise only BadDecision."""
    try:
        record: Record = msgspec.json.decode(data, type=Record)
        if not 0 <= record.number <= NUMBER_MAX:
            raise BadDecision("no such number of a write", number=record.number, limit=NUMBER_MAX)
        if isinstance(record, Decided):
            _check(record)
    except (msgspec.MsgspecError, UsageError, UnicodeError, RecursionError) as error:
        raise BadDecision(f"not a decision of a job: {error}") from None
    return record


def _check(decided: Decided) -> None:
    if len(decided.staged) > SINK_STAGED_MAX or len(decided.targets) > SINK_TARGETS_MAX:
        raise BadDecision("a decision over its bounds", batches=len(decided.staged), targets=len(decided.targets))
    if decided.staged:
        parse_node_id(decided.origin)
        if not 0 <= decided.epoch <= OFFSET_MAX:
            raise BadDecision("no such epoch", epoch=decided.epoch)
    for topic, partition in decided.targets:
        parse_topic(topic)
        if not 0 <= partition < PARTITIONS_MAX:
            raise BadDecision("no such partition", partition=partition, limit=PARTITIONS_MAX - 1)
    for place, offset in decided.staged:
        if not 0 <= place < len(decided.targets) or not 0 <= offset < OFFSET_MAX:
            raise BadDecision("no such target or offset", target=place, offset=offset)


def seal(data: bytes, secret: bytes) -> bytes:
    """Bytes as the payload of an event, with proof that they come from the owner of the secret."""
    if len(data) > EVENT_PAYLOAD_BYTES_MAX - SEAL_BYTES:
        raise UsageError("too much for one write: write less at a time", bytes=len(data), limit=EVENT_PAYLOAD_BYTES_MAX)
    return hmac_digest(secret, data, "sha256") + data


def unseal_untrusted(payload: bytes, secret: bytes) -> bytes:
    """The bytes of a payload that was sealed with the same secret; raise only OthersDecision."""
    data = payload[SEAL_BYTES:]
    if not compare_digest(payload[:SEAL_BYTES], hmac_digest(secret, data, "sha256")):
        raise OthersDecision(
            "the writes of this job were decided with another API key, or by somebody else: run it with that key, or "
            "start over, a query with a new checkpoint and an application with a new name"
        )
    return data


def outstanding(records: Sequence[Record], number: int) -> Decided | None:
    """Find the decision that counts for this write among a job's last records (in order); None if the write is done.

    The first decision for a write counts. A later write begins only when this one is done.
    """
    if any(record.number > number or record == Applied(number) for record in records):
        return None
    for record in records:
        if isinstance(record, Decided) and record.number == number:
            return record
    raise BadDecision("a decision was acknowledged and is not there", number=number)


# --- applying --------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A batch to be published. A tuple: there may be very many."""

    target: Target
    offset: int
    sequence: int


def entries(decided: Decided) -> Iterator[Entry]:
    """What is to be published, in order."""
    for index, (place, offset) in enumerate(decided.staged):
        topic, partition = decided.targets[place]
        yield Entry(Target(Topic(topic), partition), offset, batch_sequence(decided.number, index))


def as_staged(found: Sequence[Entry]) -> Sequence[Entry]:
    """The same entries in the order of their staging offsets, or unchanged if that would reorder any target's batches.

    Tasks stage side by side. In offset order the entries can be fetched in one go, and neighbours are mostly for
    different targets, so their receipts need not wait for each other.
    """
    by_offset = sorted(found, key=lambda entry: entry.offset)
    last: dict[Target, int] = {}
    for entry in by_offset:
        if entry.sequence < last.get(entry.target, entry.sequence):
            return found  # several tasks had rows for one target: keep the order of the tasks
        last[entry.target] = entry.sequence
    return by_offset


def runs(found: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries whose offsets follow each other: what can be fetched in one go."""
    run: list[Entry] = []
    for entry in found:
        if run and entry.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _digest(purpose: str, name: str) -> bytes:
    return sha256(f"weft sink {purpose}\0{name}".encode()).digest()
