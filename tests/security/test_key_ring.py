"""Whatever order statements on keys come in, nodes end up with the same, and revoked is revoked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.stated import made, record, revoked, statement
from weft.security import key_ring as key_ring_module
from weft.security.key_ring import BUCKETS, ENDED_KEPT_S, NOTHING, KeyRing, Outcome, merged
from weft.security.key_statements import Statement

NOW_S = 1_000.0
KEYS = [record(number) for number in range(3)] + [record(9, id="k1"), record(10, id="k1")]

statements = st.builds(
    lambda key, is_made, signer, signed_s, signature: statement(
        made(key, signer, signed_s) if is_made else revoked(key, signer, signed_s), signature
    ),
    st.sampled_from(KEYS),
    st.booleans(),
    st.sampled_from(["a", "b"]),
    st.integers(0, 2),
    st.sampled_from([b"s", b"t"]),
)
many = st.lists(statements, max_size=12)


def known(ring: KeyRing) -> set[Statement]:
    return set(ring.statements())


def all_of(*rings: KeyRing) -> KeyRing:
    """What a node knows that has heard all that these know."""
    return merged([each for ring in rings for each in ring.statements()], NOW_S)


@pytest.mark.req("SEC-03")
@given(many, many, many)
def test_merging_is_commutative_associative_and_idempotent(
    one: list[Statement], two: list[Statement], three: list[Statement]
) -> None:
    a, b, c = (merged(each, NOW_S) for each in (one, two, three))
    assert known(all_of(a, b)) == known(all_of(b, a))
    assert known(all_of(all_of(a, b), c)) == known(all_of(a, all_of(b, c)))
    assert known(all_of(a, a)) == known(a)
    assert known(merged(one + two + three, NOW_S)) == known(all_of(a, b, c))
    assert all_of(a, b).summary() == all_of(b, a).summary()


@pytest.mark.req("SEC-03")
@given(many, st.randoms())
def test_a_revoked_key_is_gone_whatever_else_is_said(said: list[Statement], chance: object) -> None:
    said = [*said, statement(revoked(KEYS[0]))]
    chance.shuffle(said)  # type: ignore[attr-defined]
    ring = merged(said, NOW_S)
    assert ring.made(KEYS[0].id) == []
    assert ring.revocation(KEYS[0].key_name) is not None


@given(many)
def test_digests_tell_what_differs(said: list[Statement]) -> None:
    ring = KeyRing()
    assert set(ring.digests()) == {NOTHING} and len(ring.digests()) == BUCKETS
    for each in said:
        before, summary = ring.digests(), ring.summary()
        outcome = ring.merge(each, NOW_S)
        differing = {number for number in range(BUCKETS) if before[number] != ring.digests()[number]}
        assert (outcome is Outcome.NEW) == bool(differing) == (summary != ring.summary())
        assert each.slot.bucket in differing or outcome is not Outcome.NEW
    assert ring.marks == {each.mark for each in ring.statements()}
    assert len(ring) == sum(len(ring.made(key_id)) for key_id in ring.ids())


def test_two_nodes_with_keys_of_one_number_keep_both() -> None:
    """Before keys belonged to the mesh, every node began with k1."""
    ring = merged([statement(made(KEYS[3], "a")), statement(made(KEYS[4], "b"))], NOW_S)
    assert [said.signer for said, _ in ring.made("k1")] == ["a", "b"]
    ring.merge(statement(revoked(KEYS[3], "b")), NOW_S)
    assert [said.signer for said, _ in ring.made("k1")] == ["b"], "another secret, so another key"


def test_keys_that_ended_long_ago_are_forgotten_with_their_revocations() -> None:
    old = record(1, expires_s=100)
    gone = record(2, expires_s=100)
    ring = merged([statement(made(old)), statement(revoked(gone)), statement(made(record(3)))], NOW_S)
    assert (len(ring), ring.revoked_count) == (2, 1), "people may want to see them for a while"
    late_s = 100.0 + ENDED_KEPT_S
    assert ring.forget_ended(late_s) == 2
    assert (len(ring), ring.revoked_count) == (1, 0)
    assert ring.merge(statement(made(old)), late_s) is Outcome.KNOWN, "nor does anybody bring them back"


def test_there_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ring_module, "API_KEYS_MAX", 2)
    monkeypatch.setattr(key_ring_module, "REVOKED_MAX", 2)
    ring = merged([statement(made(record(number))) for number in range(2)], NOW_S)
    assert ring.merge(statement(made(record(2))), NOW_S) is Outcome.NO_ROOM
    gone = [statement(revoked(record(number), signed_s=number)) for number in (2, 1, 3)]
    assert [ring.merge(each, NOW_S) for each in gone] == [Outcome.NEW] * 3, "revoking never fails"
    assert ring.revocation(record(1).key_name) is None, "the oldest went"
    assert ring.merge(gone[1], NOW_S) is Outcome.NO_ROOM
    assert (len(ring), ring.revoked_count) == (1, 2)
    monkeypatch.setattr(key_ring_module, "MADE_BYTES_MAX", 10)
    assert ring.merge(statement(made(record(7))), NOW_S) is Outcome.NO_ROOM
