"""Whatever order statements on keys come in, nodes end up with the same, and revoked is revoked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.stated import made, record, revoked, statement
from weft.security import mesh_keys as mesh_keys_module
from weft.security.key_statements import Statement
from weft.security.mesh_keys import BUCKETS, ENDED_KEPT_S, NOTHING, MergeOutcome, MeshKeys, merged

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


def known(keys: MeshKeys) -> set[Statement]:
    return set(keys.statements())


def all_of(*known_sets: MeshKeys) -> MeshKeys:
    """What a node knows that has heard all that these know."""
    return merged([each for keys in known_sets for each in keys.statements()], NOW_S)


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
    keys = merged(said, NOW_S)
    assert keys.made(KEYS[0].id) == []
    assert keys.revocation(KEYS[0].key_name) is not None


@given(many)
def test_digests_tell_what_differs(said: list[Statement]) -> None:
    keys = MeshKeys()
    assert set(keys.digests()) == {NOTHING} and len(keys.digests()) == BUCKETS
    for each in said:
        before, summary = keys.digests(), keys.summary()
        outcome = keys.merge(each, NOW_S)
        differing = {number for number in range(BUCKETS) if before[number] != keys.digests()[number]}
        assert (outcome is MergeOutcome.NEW) == bool(differing) == (summary != keys.summary())
        assert each.slot.bucket in differing or outcome is not MergeOutcome.NEW
    assert keys.marks == {each.mark for each in keys.statements()}
    assert len(keys) == sum(len(keys.made(key_id)) for key_id in keys.ids())


def test_two_nodes_with_keys_of_one_number_keep_both() -> None:
    """Before keys belonged to the mesh, every node began with k1."""
    keys = merged([statement(made(KEYS[3], "a")), statement(made(KEYS[4], "b"))], NOW_S)
    assert [said.signer for said, _ in keys.made("k1")] == ["a", "b"]
    keys.merge(statement(revoked(KEYS[3], "b")), NOW_S)
    assert [said.signer for said, _ in keys.made("k1")] == ["b"], "another secret, so another key"


def test_keys_that_ended_long_ago_are_forgotten_with_their_revocations() -> None:
    old = record(1, expires_s=100)
    gone = record(2, expires_s=100)
    keys = merged([statement(made(old)), statement(revoked(gone)), statement(made(record(3)))], NOW_S)
    assert (len(keys), keys.revoked_count) == (2, 1), "people may want to see them for a while"
    late_s = 100.0 + ENDED_KEPT_S
    assert keys.forget_ended(late_s) == 2
    assert (len(keys), keys.revoked_count) == (1, 0)
    assert keys.merge(statement(made(old)), late_s) is MergeOutcome.KNOWN, "nor does anybody bring them back"


@pytest.mark.req("SEC-06")
def test_a_revocation_is_not_forgotten_because_somebody_says_it_again_of_a_key_that_ends_soon() -> None:
    key, soon = record(1), record(1, expires_s=2000)
    keys = merged([statement(revoked(key, "a", 5)), statement(revoked(soon, "bad", 9))], NOW_S)
    keys.forget_ended(2000.0 + ENDED_KEPT_S)
    assert keys.revocation(key.key_name) is not None


def test_there_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_keys_module, "API_KEYS_MAX", 2)
    monkeypatch.setattr(mesh_keys_module, "REVOKED_MAX", 2)
    keys = merged([statement(made(record(number))) for number in range(2)], NOW_S)
    assert keys.merge(statement(made(record(2))), NOW_S) is MergeOutcome.NO_ROOM
    gone = [statement(revoked(record(number), signed_s=number)) for number in (2, 1, 3)]
    assert [keys.merge(each, NOW_S) for each in gone] == [MergeOutcome.NEW] * 3, "revoking never fails"
    assert keys.revocation(record(1).key_name) is None, "the oldest went"
    assert keys.merge(gone[1], NOW_S) is MergeOutcome.NO_ROOM
    assert (len(keys), keys.revoked_count) == (1, 2)
    monkeypatch.setattr(mesh_keys_module, "MADE_BYTES_MAX", 10)
    assert keys.merge(statement(made(record(7))), NOW_S) is MergeOutcome.NO_ROOM
