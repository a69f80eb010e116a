"""The judge of columns says of any EMM-C packets, one after the other, what the judge says, and marks the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.emm_compact.packets import datagrams, mutated
from weft.wire.emm_compact import (
    Command,
    Ecn,
    EventDigest,
    Field,
    FieldType,
    Format,
    Header,
    Heartbeat,
    Join,
    KeyRing,
    Notification,
    Priority,
    PropagationMap,
    RateSignal,
    Signer,
    SupportedTypes,
    decode_untrusted,
    seal,
)
from weft.wire.emm_compact.judge import Epochs, Judge, Terms
from weft.wire.emm_compact.judge_columns import ColumnJudge, JudgedRows
from weft.wire.emm_compact.packet import SIGNATURE_AT
from weft.wire.recent import NoMarks, Recent, ReplayMarks
from weft.wire.reject import CODES, OK, REASONS, BadPacket, Reject
from weft.wire.seen import SALT_BYTES, Seen

NOW = 1_700_000_000
SALT = bytes(range(1, SALT_BYTES + 1))
GROUPS = [b"g" * 32, b"h" * 32, b"x" * 32]  # the last is not in the ring
SIGNERS = [Signer(group, bytes([seed]) * 32) for group in GROUPS for seed in (1, 2)]
NODES = [bytes([number]) * 16 for number in (1, 2)]
RINGS = [
    KeyRing(tuple(GROUPS[:2]), {NODES[0]: (SIGNERS[0].public_key,)}),
    KeyRing((GROUPS[1],), {NODES[0]: (SIGNERS[1].public_key,), NODES[1]: (SIGNERS[0].public_key,)}),
    KeyRing(),
]
BODIES = [
    Notification(Priority.WARNING, Format.PLAIN_TEXT, b"hot"),
    Notification(Priority.INFO, Format.BINARY, b""),
    *(
        body
        for node in NODES
        for body in (
            Heartbeat(node, 5, EventDigest(), RateSignal(Ecn.ECT_0, 1, 2), PropagationMap(1, 2, b"abcd")),
            Join(node, SupportedTypes.NOTIFICATION, 10, 10, b""),
            Command("stop", b"", (Field(FieldType.NODE_ID, node),)),
        )
    ),
    Command("stop", b"", (Field(FieldType.NODE_ID, NODES[0]), Field(FieldType.EXPIRY_HINT, b"\x05"))),
    Command("stop", b""),  # by nobody
]


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Few senders, few numbers: most things happen twice."""
    body = draw(st.sampled_from(BODIES))
    epoch = (NOW + draw(st.sampled_from([0, 0, 0, -5, -6, -301, -300, 120, 121, 30_000]))) % 65536
    header = Header(body.TYPE, draw(st.integers(1, 2)), epoch, 0, draw(st.booleans()))
    return seal(header, body, draw(st.sampled_from([*SIGNERS[:4], *SIGNERS[:2], SIGNERS[4]]))).raw


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(packets()))
    at = draw(st.sampled_from([-1, 0, 1, 3, 7, 8, 9, 10, 40, 73]) | st.integers(0, len(data) - 1))
    data[at % len(data)] ^= draw(st.sampled_from([1, 2, 4, 128]))
    return bytes(data[: draw(st.sampled_from([None, None, None, -1, 10]))])


class Step(NamedTuple):
    """Packets arrive; then so many of those that wait are verified, by a ring that may be another one."""

    arriving: list[bytes]
    verified: int
    later_s: int
    ring: KeyRing


arriving = st.lists(packets() | packets() | packets() | damaged() | datagrams() | mutated(), min_size=1, max_size=12)
steps = st.builds(
    Step, arriving, st.integers(0, 12), st.sampled_from([0, 0, 1, 200]), st.sampled_from([*RINGS[:1] * 4, *RINGS])
)
terms = st.sampled_from([Terms(), Terms(), Terms(epochs=Epochs.ANY), Terms(tick_s=60.0)])

Said = list[tuple[str, object]]


def walk(steps: Sequence[Step], look: Callable[[list[bytes], str, int, KeyRing], Said]) -> Said:
    said, waiting, now_s, ring = [], [], NOW, RINGS[0]
    for step in steps:
        found = look(step.arriving, "sift", now_s, ring)
        waiting += [data for data, (fate, _) in zip(step.arriving, found, strict=True) if fate == "waits"]
        now_s, ring = now_s + step.later_s, step.ring
        due, waiting = waiting[: step.verified], waiting[step.verified :]
        said += found + (look(due, "verify", now_s, ring) if due else [])
    return said


def one_by_one(steps: Sequence[Step], terms: Terms, marks: ReplayMarks) -> Said:
    judge = Judge(RINGS[0], terms, marks=marks)

    def look(block: list[bytes], phase: str, now_s: int, ring: KeyRing) -> Said:
        judge.ring = ring
        return [alone(judge, data, phase, now_s) for data in block]

    return walk(steps, look)


def alone(judge: Judge, data: bytes, phase: str, now_s: float) -> tuple[str, object]:
    try:
        packet = decode_untrusted(data)
        admitted = judge.sift(packet, now_s) if phase == "sift" else judge.verify(packet, now_s)
    except BadPacket as error:
        return "refused", error.reason
    return ("waits", None) if admitted is None else ("taken", None)


def in_columns(steps: Sequence[Step], terms: Terms, seen: Seen) -> Said:
    judge = ColumnJudge(RINGS[0], terms, seen=seen)

    def look(block: list[bytes], phase: str, now_s: int, ring: KeyRing) -> Said:
        judge.use(ring)
        column = pa.array(block, pa.binary())
        rows = judge.sift(column, now_s) if phase == "sift" else judge.verify(column, now_s)
        return [fate(rows, row) for row in range(len(rows))]

    return walk(steps, look)


def fate(rows: JudgedRows, row: int) -> tuple[str, object]:
    if not rows.good[row]:
        return "refused", REASONS[rows.codes[row]]
    return ("waits", None) if rows.waiting[row] else ("taken", None)


def remembered(seen: Seen) -> set[int]:
    return {value for generation in seen._generations for value in generation.hashes}


@pytest.mark.req("EMC-05")
@pytest.mark.parametrize("body", [BODIES[0], BODIES[2]])
def test_a_tag_that_differs_in_any_bit_does_not_fit(body: Notification | Heartbeat) -> None:
    good = seal(Header(body.TYPE, 1, 2, 3), body, SIGNERS[0])
    forged = [_with_bit_changed(good.raw, bit) for bit in range(8 * len(good.signature))]
    judge = ColumnJudge(RINGS[0], Terms(epochs=Epochs.ANY))
    rows = judge.sift(pa.array([*forged, good.raw]), NOW)
    assert rows.codes.tolist() == [CODES[Reject.BAD_HMAC]] * len(forged) + [OK]


def _with_bit_changed(datagram: bytes, bit: int) -> bytes:
    """Counted from where the tag begins."""
    changed = bytearray(datagram)
    changed[SIGNATURE_AT + bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.req("EMC-05", "EMC-13")
@settings(max_examples=150)
@given(st.lists(steps, min_size=1, max_size=4), terms)
def test_any_sequence_of_packets_has_one_outcome(steps: list[Step], terms: Terms) -> None:
    """The same verdict or the same reason, and the same marks: whatever comes, in whatever blocks."""
    slow, fast = Seen(SALT), Seen(SALT)
    assert in_columns(steps, terms, fast) == one_by_one(steps, terms, slow)
    assert remembered(fast) == remembered(slow)


@pytest.mark.req("EMC-13")
@settings(max_examples=60)
@given(st.lists(steps, min_size=1, max_size=4), terms)
def test_both_memories_remember_the_same(steps: list[Step], terms: Terms) -> None:
    """The exact one of a node and the hashed one of a gateway, within the window."""
    assert one_by_one(steps, terms, Recent(1000)) == one_by_one(steps, terms, Seen(SALT))


@pytest.mark.req("EMC-13", "SPK-03")
@settings(max_examples=60)
@given(arriving, terms, st.data())
def test_without_a_memory_the_marks_are_the_same_and_each_row_has_its_own_time(
    block: list[bytes], terms: Terms, data: st.DataObject
) -> None:
    times = [data.draw(st.sampled_from([NOW + 0.5, NOW + 300.0, NOW + 301.0, float("nan")])) for _ in block]
    judge = Judge(RINGS[0], terms, marks=NoMarks())
    rows = ColumnJudge(RINGS[0], terms).sift(pa.array(block, pa.binary()), np.array(times))
    for row, (datagram, now_s) in enumerate(zip(block, times, strict=True)):
        try:
            admitted = judge.sift(decode_untrusted(datagram), now_s)
        except BadPacket as error:
            assert REASONS[rows.codes[row]] is error.reason
            continue
        assert rows.good[row]
        assert rows.waiting[row] == (admitted is None)
        if admitted is not None:
            assert rows.marks[row].tobytes() == admitted.mark
