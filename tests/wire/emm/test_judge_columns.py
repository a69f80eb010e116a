"""The judge of columns says of any packets, one after the other, what the judge says, and marks the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.wire.emm.strategies import mangled_packets
from weft.errors import UsageError
from weft.model import parse_pattern
from weft.wire.emm import (
    Algorithm,
    Credentials,
    Encryption,
    Judge,
    Seal,
    SealRule,
    SigningKey,
    Terms,
    TrustPolicy,
    TrustStore,
    Verdict,
    build,
    draft_event,
    draft_heartbeat,
    draft_hello,
)
from weft.wire.emm.fields import Value
from weft.wire.emm.judge import UNKNOWN_S
from weft.wire.emm.judge_columns import HMAC_KEYS_KEPT_MAX, VERDICTS, ColumnJudge, HmacKeys, JudgedRows
from weft.wire.recent import NoMarks, Recent, ReplayMarks
from weft.wire.reject import CODES, OK, REASONS, BadPacket, Reject
from weft.wire.seen import SALT_BYTES, Seen

NOW = 1_700_000_000
SALT = bytes(range(1, SALT_BYTES + 1))
SECRET, OTHER_SECRET, SEAL_KEY = b"s" * 32, b"o" * 32, b"k" * 32
KEYS = [SigningKey(bytes([seed]) * 32) for seed in range(3)]
NODES = [UUID(int=number) for number in range(1, 6)]  # HMAC; Ed25519; both; nothing known; nothing known
VALUES: list[Value] = [1, 0.5, "text", b"\0", {"a": 1}]
SEAL_IDS = [b"0" * 16, b"1" * 16]  # of the first the key is known


def trust_store(policy: TrustPolicy) -> TrustStore:
    store = TrustStore(policy, first_use_keys_max=1)
    coded, signing, both, *_ = NODES
    for node in (coded, both):
        store.add_hmac_key(node, b"key1", SECRET)
    for node in (signing, both):
        store.add_public_key(node, b"key1", KEYS[0].public_key)
    return store


def find_key(key_id: bytes) -> bytes | None:
    return SEAL_KEY if key_id == SEAL_IDS[0] else None


# --- what may come -----------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    data: bytes
    source: str


credentials = st.builds(
    Credentials,
    auth_key_id=st.sampled_from([b"key1", b"key1", b"key9", None]),
    hmac_key=st.sampled_from([None, SECRET, SECRET, OTHER_SECRET]),
) | st.builds(
    Credentials,
    auth_key_id=st.sampled_from([b"key1", b"key1", b"key9", None]),
    hmac_key=st.sampled_from([None, None, SECRET, OTHER_SECRET]),
    signing_key=st.sampled_from(KEYS),
    carry_public_key=st.booleans(),
)
seals = st.none() | st.builds(
    lambda algorithm, key_id: Seal(Encryption(algorithm, b"i" * 12, key_id), SEAL_KEY),
    st.sampled_from(Algorithm),
    st.sampled_from(SEAL_IDS),
)


_HMAC = Credentials(b"key1", hmac_key=SECRET)
_CARRIED = [Credentials(signing_key=key, carry_public_key=True) for key in KEYS]
HONEST = [
    (NODES[0], _HMAC),
    (NODES[0], replace(_HMAC, signing_key=KEYS[1], carry_public_key=True)),
    (NODES[1], Credentials(b"key1", signing_key=KEYS[0])),
    (NODES[1], Credentials(signing_key=KEYS[0])),
    (NODES[1], _CARRIED[0]),
    (NODES[2], replace(_HMAC, signing_key=KEYS[0])),
    (NODES[2], _HMAC),
    (NODES[3], Credentials(signing_key=KEYS[1])),
    *((node, each) for node in NODES[3:] for each in _CARRIED[1:]),
]


@st.composite
def honest(draw: st.DrawFn) -> bytes:
    """Packets that some policy takes, and that meet under one number."""
    node, proof = draw(st.sampled_from(HONEST))
    name = draw(st.sampled_from(["n", "n", "plant.temp"]))
    draft = draft_event(draw(st.integers(1, 2)), NOW, name, draw(st.integers(0, 1)), node_id=node)
    extra = draw(st.sampled_from([(), (), ((0x19, b"later"),)]))
    return build(replace(draft, extra=extra, compressed=draw(st.booleans())), draw(st.just(proof) | st.none()))


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Few senders, few numbers: most things happen twice."""
    number, at_s = draw(st.integers(1, 3)), NOW + draw(st.sampled_from([0, 0, 0, -301, -300, 120, 121]))
    node = draw(st.sampled_from(NODES))
    match draw(st.sampled_from(["event", "event", "event", "anonymous", "hello", "heartbeat"])):
        case "event":
            value = draw(st.sampled_from(VALUES))
            draft = draft_event(number, at_s, draw(st.sampled_from(["n", "plant.temp"])), value, node_id=node)
        case "anonymous":
            draft = draft_event(number, at_s, "n")
        case "hello":
            draft = draft_hello(number, at_s, node, b"caps")
        case _:
            draft = draft_heartbeat(number, at_s, node)
    extra = draw(st.sampled_from([(), (), ((0x19, b"later"),), ((0x40, b""),)]))
    draft = replace(draft, compressed=draw(st.sampled_from([False, False, True])), extra=draft.extra + extra)
    signed_at_s = draw(st.sampled_from([None, None, NOW, NOW - 301]))
    try:
        return build(draft, draw(st.none() | credentials), seal=draw(seals), signed_at_s=signed_at_s)
    except UsageError:  # a heartbeat that is sealed, a proof without a node id
        return build(draft_event(number, NOW, "n", node_id=node), Credentials(b"key1", hmac_key=SECRET))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Near the end are the authenticators, near the beginning is the header."""
    data = bytearray(draw(packets()))
    at = draw(st.sampled_from([-1, -33, -70, 0, 4, 5, 6, 14, 16, 20, 25]) | st.integers(0, len(data) - 1))
    data[at % len(data)] ^= draw(st.sampled_from([1, 2, 4, 128]))
    return bytes(data[: draw(st.sampled_from([None, None, None, -1, 10]))])


sent = st.builds(
    Sent, honest() | honest() | honest() | packets() | damaged() | mangled_packets(), st.sampled_from(["a:1", "b:2"])
)
blocks = st.lists(sent, min_size=1, max_size=12)


@dataclass(frozen=True)
class Step:
    """Packets arrive; then so many of those that wait are verified; then a node's keys may be taken away."""

    arriving: list[Sent]
    verified: int
    later_s: int
    revoked: UUID | None


steps = st.builds(
    Step, blocks, st.integers(0, 12), st.sampled_from([0, 0, 1, 200]), st.sampled_from([None] * 15 + NODES)
)
SECRETS = SealRule(parse_pattern("plant.*"), SEAL_IDS[0])
terms = st.builds(Terms, unsigned_allowed=st.booleans(), sealed=st.sampled_from([(), (SECRETS,)]))


# --- two ways through it -------------------------------------------------------------------------------------------


@dataclass
class Way:
    """One of the two, and all that it said. ``look`` judges a block in one of the two phases."""

    trust: TrustStore
    said: list[tuple[str, object]] = field(default_factory=list)
    waiting: list[Sent] = field(default_factory=list)

    def go(self, steps: Sequence[Step], look: Callable[[list[Sent], str, int], list[tuple[str, object]]]) -> None:
        now_s = NOW
        for step in steps:
            found = look(step.arriving, "sift", now_s)
            self.said += found
            self.waiting += [each for each, (fate, _) in zip(step.arriving, found, strict=True) if fate == "waits"]
            now_s += step.later_s
            due, self.waiting = self.waiting[: step.verified], self.waiting[step.verified :]
            if due:
                self.said += look(due, "verify", now_s)
            if step.revoked is not None:
                self.trust.remove(step.revoked)


def one_by_one(steps: Sequence[Step], trust: TrustStore, terms: Terms, marks: ReplayMarks) -> Way:
    judge, way = Judge(trust, terms, marks=marks, find_key=find_key), Way(trust)

    def look(block: list[Sent], phase: str, now_s: int) -> list[tuple[str, object]]:
        return [alone(judge, each, phase, now_s) for each in block]

    way.go(steps, look)
    return way


def alone(judge: Judge, each: Sent, phase: str, now_s: float) -> tuple[str, object]:
    try:
        packet = judge.parse(each.data)
        ask = judge.sift if phase == "sift" else judge.verify
        admitted = ask(packet, each.source.encode(), now_s)
        return ("waits", None) if admitted is None else ("taken", _shown(judge.open(admitted)))
    except BadPacket as error:
        return "refused", error.reason


def _shown(received: object) -> str:
    return repr(received)  # NaN is not equal to itself; its text is


def in_columns(steps: Sequence[Step], trust: TrustStore, terms: Terms, seen: Seen) -> Way:
    judge, way = ColumnJudge(trust, terms, seen=seen, find_key=find_key), Way(trust)

    def look(block: list[Sent], phase: str, now_s: int) -> list[tuple[str, object]]:
        judge.trust_changed()
        data, sources = pa.array([each.data for each in block]), pa.array([each.source for each in block])
        rows = judge.sift(data, sources, now_s) if phase == "sift" else judge.verify(data, sources, now_s)
        judge.open(rows)
        return [fate(rows, row) for row in range(len(rows))]

    way.go(steps, look)
    return way


def fate(rows: JudgedRows, row: int) -> tuple[str, object]:
    if not rows.good[row]:
        return "refused", REASONS[rows.codes[row]]
    if rows.waiting[row]:
        return "waits", None
    packet = rows.opened.get(row) or rows.packet(row)
    return "taken", f"ReceivedPacket(packet={packet!r}, verdict={VERDICTS[rows.verdicts[row]]!r})"


def remembered(seen: Seen) -> set[int]:
    return {value for generation in seen._generations for value in generation.hashes}


@pytest.mark.req("EMM-14", "EMM-15", "EMM-17", "EMM-18", "EMM-19", "EMM-20", "EMM-22", "EMM-24")
@settings(max_examples=150)
@given(st.lists(steps, min_size=1, max_size=4), st.sampled_from(TrustPolicy), terms)
def test_any_sequence_of_packets_has_one_outcome(steps: list[Step], policy: TrustPolicy, terms: Terms) -> None:
    """The same verdict or the same reason, the same marks, the same pinned keys: whatever comes, in whatever blocks."""
    slow, fast = Seen(SALT), Seen(SALT)
    scalar = one_by_one(steps, trust_store(policy), terms, slow)
    columnar = in_columns(steps, trust_store(policy), terms, fast)
    assert columnar.said == scalar.said
    assert columnar.waiting == scalar.waiting
    assert remembered(fast) == remembered(slow)
    assert columnar.trust._first_use == scalar.trust._first_use


@pytest.mark.req("EMM-14")
def test_an_hmac_that_differs_in_any_bit_does_not_fit() -> None:
    good = build(draft_event(1, NOW, "n", node_id=NODES[0]), _HMAC)
    forged = [_with_bit_changed(good, bit) for bit in range(8 * 32)]
    sources = pa.array(["a:1"] * (len(forged) + 1))
    rows = ColumnJudge(trust_store(TrustPolicy.PINNED)).sift(pa.array([*forged, good]), sources, NOW)
    assert rows.codes.tolist() == [CODES[Reject.BAD_HMAC]] * len(forged) + [OK]


def _with_bit_changed(packet: bytes, bit: int) -> bytes:
    """Counted from the end, where the HMAC is."""
    changed = bytearray(packet)
    changed[-1 - bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.req("EMM-19")
def test_a_strangers_signature_with_somebodys_id_does_not_keep_out_theirs() -> None:
    judge, sources = ColumnJudge(trust_store(TrustPolicy.ANY), seen=Seen(SALT)), pa.array(["a:1"])
    draft = draft_event(1, NOW, "n", node_id=NODES[0])
    strangers, genuine = pa.array([build(draft, _CARRIED[2])]), pa.array([build(draft, _HMAC)])
    assert judge.sift(strangers, sources, NOW).waiting.all()
    verified = judge.verify(strangers, sources, NOW)
    assert verified.accepted.all() and VERDICTS[verified.verdicts[0]] is Verdict.UNVERIFIED_IDENTITY
    assert judge.sift(genuine, sources, NOW).accepted.all()
    for again in (strangers, genuine):
        assert judge.sift(again, sources, NOW).codes.tolist() == [CODES[Reject.REPLAY]]


@pytest.mark.req("EMM-15", "EMM-19")
def test_an_hmac_vouches_whatever_key_a_packet_carries() -> None:
    """Rare among random packets: both proofs, the key a stranger's, and the policy `any`."""
    packet = build(draft_event(1, NOW, "n", node_id=NODES[0]), HONEST[1][1])
    step = Step([Sent(packet, "a:1")] * 2, 2, 0, None)
    for way in (
        one_by_one([step], trust_store(TrustPolicy.ANY), Terms(), Seen(SALT)),
        in_columns([step], trust_store(TrustPolicy.ANY), Terms(), Seen(SALT)),
    ):
        assert [found[0] for found in way.said] == ["waits", "waits", "taken", "refused"]
        assert "Verdict.VERIFIED" in str(way.said[2][1])


@pytest.mark.req("EMM-19")
@settings(max_examples=60)
@given(st.lists(steps, min_size=1, max_size=4), st.sampled_from(TrustPolicy), terms)
def test_both_memories_remember_the_same(steps: list[Step], policy: TrustPolicy, terms: Terms) -> None:
    """The exact one of a node and the hashed one of a gateway. Beyond the window the hashed one may remember more."""
    assume(sum(step.later_s for step in steps[:-1]) <= terms.window_s)
    exact = one_by_one(steps, trust_store(policy), terms, Recent(1000))
    hashed = one_by_one(steps, trust_store(policy), terms, Seen(SALT))
    assert exact.said == hashed.said


@pytest.mark.req("EMM-19", "SPK-03")
@settings(max_examples=60)
@given(blocks, st.sampled_from(TrustPolicy), terms, st.data())
def test_without_a_memory_the_marks_are_the_same_and_each_row_has_its_own_time(
    block: list[Sent], policy: TrustPolicy, terms: Terms, data: st.DataObject
) -> None:
    times = [data.draw(st.sampled_from([float(NOW), NOW + 300.0, NOW + 301.5, UNKNOWN_S])) for _ in block]
    judge = Judge(trust_store(policy), terms, marks=NoMarks(), find_key=find_key)
    columns = ColumnJudge(trust_store(policy), terms, find_key=find_key)
    sources = pa.array([each.source for each in block])
    rows = columns.sift(pa.array([each.data for each in block]), sources, np.array(times))
    for row, (each, now_s) in enumerate(zip(block, times, strict=True)):
        try:
            admitted = judge.sift(judge.parse(each.data), each.source.encode(), now_s)
        except BadPacket as error:
            assert REASONS[rows.codes[row]] is error.reason
            continue
        assert rows.good[row]
        assert rows.waiting[row] == (admitted is None)
        if admitted is not None:
            assert rows.marks()[row].tobytes() == admitted.mark


@given(st.lists(st.binary(min_size=20, max_size=20), min_size=1, max_size=8), st.binary(min_size=72, max_size=72))
def test_marks_are_hashed_alike_one_by_one_and_in_columns(marks: list[bytes], longer: bytes) -> None:
    seen = Seen(SALT)
    for some in (marks, [longer]):
        matrix = np.frombuffer(b"".join(some), np.uint8).reshape(len(some), -1)
        assert seen.hashes(matrix).tolist() == [seen.hash(mark) for mark in some]


def test_prepared_keys_are_bounded_and_forgotten_when_trust_changes() -> None:
    store = TrustStore()
    for number in range(HMAC_KEYS_KEPT_MAX + 1):
        store.add_hmac_key(UUID(int=number), b"key1", SECRET)
    keys = HmacKeys(store)
    for number in range(HMAC_KEYS_KEPT_MAX + 1):
        assert keys.find((UUID(int=number).bytes, b"key1")) is not None
    assert len(keys._known) == 1
    assert keys.find((UUID(int=HMAC_KEYS_KEPT_MAX + 2).bytes, b"key1")) is None
    assert len(keys._known) == 1
    keys.forget()
    assert not keys._known
