"""What was brought over is known by its identity."""

from __future__ import annotations

from weft.gateway.coaty.memory import IDENTITY_BYTES, IDENTITY_HEADER, Remembered, identities_in, identity_of, read_back
from weft.log import MemoryStore, open_store
from weft.model import Batch, parse_node_id, parse_pattern, parse_topic
from weft.model.stream import Epoch, Stream

NOW_US = 1_000_000_000_000
OLD_US = NOW_US - 3_600 * 1_000_000


def test_identities_are_unambiguous() -> None:
    assert len(identity_of(b"a")) == 2 * IDENTITY_BYTES
    assert identity_of(b"ab", b"c") != identity_of(b"a", b"bc")


def test_the_oldest_are_forgotten_first() -> None:
    remembered = Remembered(2)
    assert [remembered.add(each) for each in "aab"] == [True, False, True]
    assert remembered.add("c")
    assert ["a" in remembered, "b" in remembered, "c" in remembered] == [False, True, True]
    remembered.discard("b")
    assert len(remembered) == 1


def brought(at_us: int, *identities: str | None) -> Batch:
    headers = [None if each is None else {IDENTITY_HEADER: each} for each in identities]
    return Batch.from_columns([b"x"] * len(identities), at_us, None, headers)


def test_the_log_is_what_outlives_a_restart() -> None:
    log = open_store(MemoryStore(), lambda: Epoch(1))
    stream = Stream(parse_topic("coaty.plant.CHN.line1"), parse_node_id("n0"), 0)
    other = Stream(parse_topic("elsewhere"), parse_node_id("n0"), 0)
    identities = [identity_of(bytes([number])) for number in range(6)]
    log.append(stream, brought(OLD_US, identities[0]))
    log.append(stream, brought(NOW_US, identities[1], None, identities[2]))
    log.append(stream, brought(NOW_US, identities[3], "not an identity"))
    log.append(other, brought(NOW_US, identities[4]))
    log.sync()
    found = list(read_back(log, parse_pattern("coaty.plant.>"), NOW_US))
    assert found == identities[1:4], "what is old, elsewhere, or has none is left out"
    assert list(identities_in(brought(NOW_US, *identities[:2]), 1)) == identities[1:2]
