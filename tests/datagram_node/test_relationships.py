"""The neighbours as a table: who gets a place, who loses it, who is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.datagram_node import Admission, ChangeKind, Relationships
from weft.errors import UsageError
from weft.wire.udp import Address, quic_address

INTERVAL_S = 10.0


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def place(number: int) -> Address:
    return f"10.0.0.{number}", 7500


def admit(
    relationships: Relationships[str], number: int, now_s: float, at: int | None = None, wanted: bool = False
) -> Admission:
    where = place(number if at is None else at)
    return relationships.admit(name(number), where, "about", INTERVAL_S, now_s, wanted=wanted)


def full(*, preferred: range = range(0)) -> Relationships[str]:
    """Ten, of which number 9 came last; all heard at time 9."""
    relationships = Relationships[str](10, [name(number) for number in preferred])
    for number in range(10):
        assert admit(relationships, number, float(number)) is Admission.NEW
    for number in range(10):
        assert relationships.hear(name(number), place(number), "alive", 9.0)
    return relationships


def numbers(relationships: Relationships[str]) -> set[int]:
    return {int.from_bytes(each.node_id) for each in relationships}


@pytest.mark.req("EMC-11")
@pytest.mark.parametrize(
    ("case", "preferred", "wanted", "now_s", "expected", "gone"),
    [
        ("all are punctual", range(0), False, 10.0, Admission.FULL, None),
        ("the newcomer is preferred", range(50, 51), False, 10.0, Admission.NEW, 9),
        ("the newcomer was asked for", range(0), True, 10.0, Admission.NEW, 9),
        ("all are preferred", range(51), False, 10.0, Admission.FULL, None),
        ("some are preferred", range(5, 51), False, 10.0, Admission.NEW, 4),
        ("not yet late", range(0), False, 23.9, Admission.FULL, None),
        ("late by one heartbeat", range(0), False, 24.1, Admission.NEW, 9),
    ],
)
def test_who_goes_for_a_newcomer(
    case: str, preferred: range, wanted: bool, now_s: float, expected: Admission, gone: int | None
) -> None:
    relationships = full(preferred=preferred)
    assert admit(relationships, 50, now_s, wanted=wanted) is expected, case
    everybody = set(range(10)) if gone is None else {*range(10), 50} - {gone}
    assert numbers(relationships) == everybody, case


@pytest.mark.req("EMC-11")
def test_one_that_is_late_goes_before_others() -> None:
    relationships = full()
    for number in range(10):
        if number != 3:
            relationships.hear(name(number), place(number), "alive", 30.0)
    assert admit(relationships, 50, 31.0) is Admission.NEW
    assert numbers(relationships) == {*range(10), 50} - {3}


@pytest.mark.req("EMC-15")
def test_silence_ends_a_relationship() -> None:
    relationships = full()
    assert relationships.next_expiry_s() == 9.0 + 35.0
    relationships.hear(name(4), place(4), "alive", 20.0)
    assert relationships.expire(43.9) == []
    assert {int.from_bytes(each.node_id) for each in relationships.expire(44.0)} == set(range(10)) - {4}
    assert numbers(relationships) == {4}
    assert [change.kind for change in relationships.changes][-9:] == [ChangeKind.LOST] * 9
    assert len(relationships.known()) == 10, "enough is kept to find them again"


def test_a_heartbeat_counts_only_from_the_neighbours_own_address() -> None:
    relationships = full()
    assert not relationships.hear(name(1), place(2), "about", 20.0)
    assert not relationships.hear(name(77), place(77), "about", 20.0)
    assert {each.heard_s for each in relationships} == {9.0}


@pytest.mark.req("EMM-28")
def test_a_neighbour_by_quic_stays_there_until_its_connection_ends() -> None:
    secret, plain = quic_address(("10.0.0.9", 4700)), ("10.0.0.9", 4701)
    neighbours: Relationships[str] = Relationships(10)
    assert neighbours.admit(b"a", plain, "", 10, 0) is Admission.NEW
    assert neighbours.admit(b"a", secret, "", 10, 1) is Admission.KNOWN
    assert neighbours.admit(b"a", plain, "", 10, 2) is Admission.IN_THE_CLEAR
    assert neighbours.hear(b"a", plain, "alive", 30)
    assert neighbours.expire(36) == []
    assert neighbours.others(None) == [secret]
    neighbours.gone(plain)
    assert neighbours.others(None) == [secret]
    neighbours.gone(secret)
    assert neighbours.others(None) == []
    assert [change.kind for change in neighbours.changes] == [ChangeKind.JOINED, ChangeKind.LOST]
    assert neighbours.admit(b"a", plain, "", 10, 37) is Admission.NEW


def test_an_address_belongs_to_one_neighbour() -> None:
    relationships = full()
    assert admit(relationships, 50, 10.0, at=2) is Admission.FORWARDED
    assert relationships.at(place(2)) is relationships.get(name(2))
    assert admit(relationships, 2, 10.0, at=60) is Admission.KNOWN
    assert relationships.at(place(2)) is None
    assert relationships.at(place(60)) is relationships.get(name(2))


def test_a_dropped_node_is_barred_for_a_while() -> None:
    relationships = full()
    dropped = relationships.drop(name(3), 10.0, bar_s=60.0)
    assert dropped is not None and dropped.node_id == name(3)
    assert relationships.changes[-1].kind is ChangeKind.DROPPED
    assert admit(relationships, 3, 69.0) is Admission.BARRED
    assert relationships.is_barred(name(3), 70.0)
    assert admit(relationships, 3, 70.1) is Admission.NEW
    assert relationships.drop(name(99), 10.0) is None
    assert admit(relationships, 99, 11.0) is Admission.BARRED
    assert admit(relationships, 99, 11.0, wanted=True) is Admission.NEW, "who is asked for is welcome"


def test_what_is_known_is_bounded_and_neighbours_are_forgotten_last() -> None:
    relationships = Relationships[str](10, known_max=12)
    for number in range(40):
        admit(relationships, number, 0.0)
    known = [int.from_bytes(each.node_id) for each in relationships.known()]
    assert known == [*range(10), 38, 39]


@pytest.mark.req("EMC-11")
def test_ten_at_least() -> None:
    with pytest.raises(UsageError, match="at least 10 relationships"):
        Relationships[str](9)


@given(
    st.lists(
        st.tuples(st.sampled_from(["admit", "hear", "expire", "drop"]), st.integers(0, 14), st.integers(0, 14)),
        max_size=60,
    )
)
def test_the_two_books_agree(steps: list[tuple[str, int, int]]) -> None:
    relationships = Relationships[str](10, [name(13)], known_max=12)
    for second, (step, number, where) in enumerate(steps):
        now_s = second * 5.0
        match step:
            case "admit":
                admit(relationships, number, now_s, at=where)
            case "hear":
                relationships.hear(name(number), place(where), "alive", now_s)
            case "expire":
                relationships.expire(now_s)
            case _:
                relationships.drop(name(number), now_s, bar_s=20.0)
        all_of_them = list(relationships)
        assert len(relationships) == len(all_of_them) <= 10
        assert [each.address for each in all_of_them] == [
            each.address for each in all_of_them if relationships.at(each.address) is each
        ]
        assert sorted(relationships.others(None)) == sorted(each.address for each in all_of_them)
        for each in all_of_them:
            assert each.address not in relationships.others(each.address)
        assert len(relationships.known()) <= 12
