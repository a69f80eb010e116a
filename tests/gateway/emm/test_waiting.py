"""Who waits, who goes first, and who does not get in."""

from __future__ import annotations

import pytest

from tests.gateway.emm.devices import Device
from weft.gateway.emm.quarantine import Quarantine
from weft.gateway.emm.rows import Arrived, Rejected, Sources
from weft.gateway.emm.waiting import Line, Signatures
from weft.wire.reject import Reject
from weft.wire.udp import Address

URGENT = Device().event("fire", urgent=True)
NORMAL = Device().event("temp")


@pytest.mark.req("EMM-29")
def test_urgent_datagrams_go_first_and_each_kind_in_its_order() -> None:
    line = Line()
    line.put([Arrived(NORMAL, "1"), Arrived(URGENT, "2"), Arrived(NORMAL, "3"), Arrived(URGENT, "4")])
    assert [each.source for each in line.take(3)] == ["2", "4", "1"]
    line.put([Arrived(URGENT, "5")])
    assert [each.source for each in line.take(9)] == ["5", "3"]


def test_a_full_line_drops_what_comes_last_urgent_or_not() -> None:
    line = Line(datagrams_max=2)
    line.put([Arrived(NORMAL, "1"), Arrived(NORMAL, "2"), Arrived(URGENT, "3")])
    line.put([Arrived(URGENT, "4")])
    assert (len(line), line.dropped) == (2, 2)
    assert [each.source for each in line.take(9)] == ["1", "2"]


def test_strangers_do_not_hold_up_who_has_shown_good_signatures() -> None:
    signatures = Signatures()
    signatures.passed("known")
    signatures.put([Arrived(NORMAL, "stranger")] * 1000)
    signatures.put([Arrived(NORMAL, "known")] * 10)
    taken = [each.source for each in signatures.take(8)]
    assert taken == ["known"] * 6 + ["stranger"] * 2  # a quarter is theirs in any case
    assert [each.source for each in signatures.take(8)] == ["known"] * 4 + ["stranger"] * 4


def test_who_is_alone_gets_all_the_time_there_is() -> None:
    signatures = Signatures()
    signatures.passed("known")
    signatures.put([Arrived(NORMAL, "known")] * 10)
    assert len(signatures.take(8)) == 8


def test_a_source_whose_signature_fails_is_a_stranger_again() -> None:
    signatures = Signatures(packets_max=5)
    signatures.passed("known")
    signatures.failed("known")
    signatures.put([Arrived(NORMAL, "known")] * 10)
    assert (len(signatures), signatures.dropped) == (5, 5)
    signatures.passed("other")
    signatures.put([Arrived(NORMAL, "other")])
    assert len(signatures) == 6  # strangers fill their own line only


def test_sources_are_remembered_up_to_a_bound() -> None:
    signatures = Signatures(sources_max=2)
    for source in ("a", "b", "c"):
        signatures.passed(source)
    signatures.put([Arrived(NORMAL, "a"), Arrived(NORMAL, "c"), Arrived(NORMAL, "x")])
    assert [each.source for each in signatures.take(3)] == ["c", "a", "x"]


def rejected(count: int) -> list[Rejected]:
    return [Rejected(bytes([number]), "s", Reject.VERSION) for number in range(count)]


def test_the_quarantine_counts_everything_and_keeps_as_much_as_people_can_look_at() -> None:
    quarantine = Quarantine(0.0, per_s=10, burst=5)
    assert len(quarantine.take(rejected(20), 0.0)) == 5
    assert len(quarantine.take(rejected(20), 0.3)) == 3
    assert len(quarantine.take(rejected(20), 100.0)) == 5
    assert quarantine.rejected == {Reject.VERSION: 60}
    assert quarantine.skipped == 60 - 13
    assert len(quarantine.take(rejected(1), 99.0)) == 0  # a clock that goes back gives nothing


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(("size", "kept"), [(1, 256), (1024, 256), (60_000, 4)])
def test_what_is_kept_of_one_turn_is_bounded_by_number_and_bytes(size: int, kept: int) -> None:
    quarantine = Quarantine(0.0)
    many = [Rejected(bytes(size), "s", Reject.VERSION)] * 1000
    assert len(quarantine.take(many, 0.0)) == kept
    assert (quarantine.rejected.total(), quarantine.skipped) == (1000, 1000 - kept)
    assert len(quarantine.take(many, 0.0)) == kept  # the next turn has its own


def test_a_line_that_is_half_full_asks_for_no_more() -> None:
    line = Line(datagrams_max=10)
    line.put([Arrived(NORMAL, "a")] * 5)
    assert line.has_room()
    line.put([Arrived(NORMAL, "a")])
    assert not line.has_room()


def test_sources_both_ways() -> None:
    sources = Sources(sources_max=2)
    addresses: list[Address] = [("10.0.0.1", 1), ("::1", 2, 0, 0)]
    assert sources.arrived([b"x", b"y"], addresses, [64, 3], [0, 3]) == [
        Arrived(b"x", "10.0.0.1:1"),
        Arrived(b"y", "[::1]:2", 3, 3),
    ]
    assert sources.address("[::1]:2") == ("::1", 2, 0, 0)
    sources.arrived([b"z"], [("10.0.0.2", 3)], [64], [0])
    assert sources.address("10.0.0.1:1") is None  # forgotten, and soon heard again
