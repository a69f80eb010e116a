from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.groups.talk import A, B, stream
from weft.core.groups.owners import GroupMember, Owners, WorkShare, owner_of, rank, wants
from weft.core.messages import StreamKey
from weft.model import Epoch, NodeId, Pattern

PATTERNS = [Pattern("plant.>"), Pattern("plant.*.temp"), Pattern("office.*"), Pattern("weft.>")]
STREAMS = [
    stream(topic, NodeId(origin), Epoch(epoch))
    for topic in ("plant.a.temp", "plant.b", "office.door", "weft.groups.g", "weft.plain.x")
    for origin in "ab"
    for epoch in (1, 2)
]
MANY = [stream(f"plant.t{number}") for number in range(1000)]
MEMBERS = st.builds(
    GroupMember,
    st.sampled_from([NodeId("a"), NodeId("b"), NodeId("c")]),
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.sampled_from(PATTERNS),
)


def one_per_name(members: set[GroupMember]) -> frozenset[GroupMember]:
    return frozenset({each.name: each for each in sorted(members)}.values())


def owners_of(members: frozenset[GroupMember]) -> dict[StreamKey, GroupMember]:
    owners = Owners()
    owners.set_members(members, MANY)
    settle(owners)
    return dict(owners.items())


def settle(owners: Owners, at_once: int = 7) -> None:
    while not owners.work(WorkShare(at_once))[0]:
        pass


@given(st.lists(st.sets(MEMBERS, max_size=6) | st.sampled_from(STREAMS), max_size=12))
def test_what_is_kept_up_to_date_is_what_is_defined(changes: list[set[GroupMember] | StreamKey]) -> None:
    owners, members, keys = Owners(), frozenset[GroupMember](), dict[StreamKey, None]()
    for change in changes:
        if isinstance(change, set):
            members = one_per_name(change)
            owners.set_members(members, keys)
            settle(owners)
        elif change not in keys:
            keys[change] = None
            owners.add(change)
        for key in STREAMS:
            assert owners.get(key) == (owner_of(key, members) if key in keys else None)


@pytest.mark.req("SEC-05")
@given(
    st.lists(st.tuples(st.sets(MEMBERS, max_size=6) | st.sampled_from(STREAMS), st.integers(0, 3)), max_size=12),
)
def test_members_that_change_while_streams_are_still_looked_at(
    changes: list[tuple[set[GroupMember] | StreamKey, int]],
) -> None:
    """Nobody who is gone has a stream; in the end each has its owner; and whatever changed was told."""
    owners, members, keys = Owners(), frozenset[GroupMember](), dict.fromkeys(STREAMS[:10])
    told: set[StreamKey] = set()
    for change, looked in changes:
        if isinstance(change, set):
            members = one_per_name(change)
            owners.set_members(members, keys)
        elif change not in keys:
            keys[change] = None
            if owners.add(change):
                told.add(change)
        told.update(owners.work(WorkShare(looked))[1])
        assert all(owner in members for _, owner in owners.items())
    done, changed = owners.work(WorkShare(10_000))
    assert done
    told.update(changed)
    expected = {key: owner_of(key, members) for key in keys}
    assert {key: owners.get(key) for key in keys} == expected
    assert told >= {key for key, owner in expected.items() if owner}


def test_who_comes_takes_its_share_and_nothing_else_moves() -> None:
    members = frozenset(GroupMember(A, f"m{number}", Pattern("plant.>")) for number in range(4))
    newcomer = GroupMember(B, "new", Pattern("plant.>"))
    before, after = owners_of(members), owners_of(members | {newcomer})
    moved = {key for key in MANY if before[key] != after[key]}
    assert {after[key] for key in moved} == {newcomer}
    assert 120 <= len(moved) <= 280  # a fifth of 1,000


def test_shares_are_about_even() -> None:
    members = frozenset(GroupMember(A, f"m{number}", Pattern("plant.>")) for number in range(5))
    shares = Counter(owners_of(members).values())
    assert len(shares) == 5
    assert all(140 <= share <= 260 for share in shares.values()), shares


def test_a_member_that_returns_at_another_node_has_its_streams_again() -> None:
    others = frozenset(GroupMember(A, f"m{number}", Pattern("plant.>")) for number in range(3))
    before = owners_of(others | {GroupMember(A, "x", Pattern("plant.>"))})
    after = owners_of(others | {GroupMember(B, "x", Pattern("plant.>"))})
    assert [owner.name for owner in before.values()] == [owner.name for owner in after.values()]


def test_weights_are_for_ever() -> None:
    """Nodes of different releases have to agree. By hand: blake2b of both texts, xor, splitmix64's last steps."""
    assert rank(stream("plant.t"), "m", A) == (18170881446578554982, "m", A)


@pytest.mark.parametrize(
    ("pattern", "topic", "wanted"),
    [
        ("plant.>", "plant.t", True),
        ("plant.>", "office.t", False),
        (">", "plant.t", True),
        (">", "weft.plain.x", False),
        ("weft.>", "weft.plain.x", True),
        ("weft.>", "weft.groups.g", False),
        ("weft.groups.g", "weft.groups.g", False),
    ],
)
def test_what_a_member_can_have(pattern: str, topic: str, wanted: bool) -> None:
    assert wants(Pattern(pattern), stream(topic)) is wanted
