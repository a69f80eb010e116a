"""Which Coaty objects there are: whatever the order of events, and however often they come."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.coaty_events import AGENT, advertise, coaty_object, deadvertise, uuid
from weft.pipelines.coaty_objects import (
    Change,
    Facts,
    Known,
    Version,
    decode_known,
    encode_known,
    merge,
    read_changes_untrusted,
    step,
)
from weft.wire.coaty import BadCoatyMessage

ADV, DAD = "coaty.plant.ADV.CoatyObject", "coaty.plant.DAD"
LAMP = uuid(1)


def read(topic: str, payload: bytes, at_us: int = 7) -> list[Change]:
    return read_changes_untrusted(topic, payload, at_us=at_us, origin="n0", epoch=1, partition=0, offset=5)


def change(at_us: int, *, gone: bool, offset: int = 0) -> Change:
    """An Advertise (which carries its time as the name) or a Deadvertise of the one object of these tests."""
    facts = None if gone else Facts("CoatyObject", "com.example.Lamp", f"{at_us}.{offset}", None, None, AGENT, "{}")
    return Change("plant", LAMP, Version(at_us, gone, 1, offset, DAD if gone else ADV, "n0", 0), facts)


CHANGES = st.lists(
    st.builds(change, st.integers(0, 5), gone=st.booleans(), offset=st.integers(0, 2)), min_size=1, max_size=12
)


# --- reading -----------------------------------------------------------------------------------------------------


def test_an_advertise_tells_all_of_an_object() -> None:
    published = coaty_object(LAMP, "lamp 1", parentObjectId=uuid(9), externalId="x", colour="ré\x00d")
    (found,) = read(ADV, advertise(published))
    assert (found.namespace, found.object_id) == ("plant", LAMP)
    assert found.version == Version(7, False, 1, 5, ADV, "n0", 0)
    assert found.facts is not None
    assert (found.facts.core_type, found.facts.object_type) == ("CoatyObject", "com.example.Lamp")
    assert (found.facts.name, found.facts.parent_object_id, found.facts.external_id) == ("lamp 1", uuid(9), "x")
    assert found.facts.source_id == AGENT
    assert '"colour":"ré\\u0000d"' in found.facts.object


def test_a_deadvertise_tells_of_several_objects_once_each() -> None:
    found = read(DAD, deadvertise(LAMP, uuid(2), LAMP))
    assert [each.object_id for each in found] == [LAMP, uuid(2)]
    assert all(each.facts is None and each.version.gone for each in found)


@pytest.mark.parametrize("topic", ["plant.temp", "coaty.plant.CHN.x", "coaty.plant.UPDCoatyObject", "coaty"])
def test_other_events_say_nothing_about_objects(topic: str) -> None:
    assert read(topic, b"\xff") == []


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        (ADV, b"", "not JSON"),
        (ADV, b"[]", "not a JSON object"),
        (ADV, b'{"data": {}}', "sourceId is missing"),
        (ADV, deadvertise(LAMP), "object is missing"),
        (ADV, b'{"sourceId": "x", "data": {"object": {}}}', "object"),
        (DAD, advertise(coaty_object(LAMP)), "objectIds is missing"),
        (DAD, deadvertise(LAMP).replace(LAMP.encode(), b"lamp"), "UUID"),
        (ADV, advertise(coaty_object(LAMP)).replace(b'"name":"lamp"', b'"name":"\xff"'), "UTF-8"),
        (ADV, b'{"a":' * 100 + b"1" + b"}" * 100, "nested too deep"),
    ],
)
def test_what_is_no_coaty_event_is_refused_with_the_reason(topic: str, payload: bytes, reason: str) -> None:
    with pytest.raises(BadCoatyMessage, match=reason):
        read(topic, payload)


@given(st.sampled_from([ADV, DAD]), st.binary(max_size=60) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(topic: str, payload: bytes) -> None:
    with suppress(BadCoatyMessage):
        read(topic, payload)


# --- merging -----------------------------------------------------------------------------------------------------


@given(CHANGES, st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_matters(changes: list[Change], chance: object) -> None:
    shuffled = changes * 2
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge(merge(Known(), shuffled[:3]), shuffled[3:]) == merge(Known(), changes)


@given(CHANGES)
def test_the_newest_event_decides(changes: list[Change]) -> None:
    """The definition: sort all that was ever said, look at the end."""
    ordered = sorted(changes, key=lambda each: each.version)
    known = merge(Known(), changes)
    assert known.is_there is (ordered[-1].facts is not None)
    advertised = [each for each in ordered if each.facts is not None]
    assert known.facts == (advertised[-1].facts if advertised else None)


@given(st.lists(CHANGES, max_size=4), st.booleans())
def test_what_is_shown_is_what_is_there(batches: list[list[Change]], marks: bool) -> None:
    """A table to which every step's news are applied is, after each step, the one made of all events at once."""
    kept, row, seen = Known(), None, list[Change]()
    for changes in batches:
        kept, shown = step(kept, changes, marks=marks)
        seen += changes
        if shown is not None:
            assert row is None or shown.revision > row.revision
            row = shown if marks or shown.is_there else None
        whole = merge(Known(), seen)
        if marks:
            assert (row is None) == (whole.advertised is None)
            if row is not None:
                assert (row.advertised, row.facts, row.is_there) == (whole.advertised, whole.facts, whole.is_there)
        else:
            assert (row is not None) is whole.is_there
            assert row is None or (row.advertised, row.facts) == (whole.advertised, whole.facts)
            assert kept.facts is None, "a table without marks needs no second copy of its objects"
        assert decode_known(encode_known(kept)) == kept


@pytest.mark.parametrize("marks", [True, False])
def test_nothing_is_shown_of_objects_that_only_left(marks: bool) -> None:
    kept, shown = step(Known(), [change(3, gone=True)], marks=marks)
    assert shown is None
    kept, shown = step(kept, [change(2, gone=False)], marks=marks)
    assert not kept.is_there
    assert (shown is not None) is marks  # with marks, the table says what it was
