"""What a mesh knows of schemas: records, versions, and which one counts."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.strategies import PATTERNS, TOPICS
from weft.errors import UsageError
from weft.model import Pattern, Topic, covers, matches
from weft.schema import BadSchema, Compatibility, Fault, IncompatibleSchema, Kind, SchemaBroken, parse_schema
from weft.schema.registry import (
    VERSIONS_BYTES_MAX,
    VERSIONS_MAX,
    Change,
    Mode,
    TopicSchema,
    changed,
    key_of,
    most_specific,
    parsed_versions,
    read_record_untrusted,
    write_record,
)

pytestmark = pytest.mark.req("LAK-02")
PLANT = Pattern("plant.*.temp")


def ddl(text: str) -> Change:
    return Change(parse_schema(Kind.DDL, text))


def first() -> TopicSchema:
    return changed(PLANT, None, ddl("id BIGINT"), 1, "key k1")


def test_a_new_record_has_defaults() -> None:
    record = first()
    assert (record.mode, record.compatibility, record.latest.number) == (Mode.WARN, Compatibility.BACKWARD, 1)
    assert (record.latest.by, record.latest.at_us) == ("key k1", 1)
    with pytest.raises(UsageError, match="no schema is set"):
        changed(PLANT, None, Change(mode=Mode.REJECT), 1, "key k1")


def test_versions_follow_each_other() -> None:
    second = changed(PLANT, first(), ddl("id BIGINT, temp DOUBLE"), 2, "key k2")
    assert [each.number for each in second.versions] == [1, 2]
    assert changed(PLANT, second, ddl("id BIGINT, temp DOUBLE"), 3, "key k3") == second, "the same text is no version"
    with pytest.raises(IncompatibleSchema, match=r"version 2: id: .*BIGINT.*backward"):
        changed(PLANT, second, ddl("id STRING"), 3, "key k3")
    forced = changed(PLANT, second, Change(ddl("id STRING").schema, None, Compatibility.NONE), 3, "key k3")
    assert forced.latest.number == 3 and forced.compatibility is Compatibility.NONE
    assert changed(PLANT, second, Change(mode=Mode.REJECT), 3, "k").versions == second.versions


def test_old_versions_go_first() -> None:
    record = first()
    for number in range(2 * VERSIONS_MAX):
        record = changed(PLANT, record, ddl(f"id BIGINT, c{number} INT"), number, "k")
    assert len(record.versions) == VERSIONS_MAX and record.latest.number == 2 * VERSIONS_MAX + 1
    for number in range(10):
        long = f"id BIGINT, c{number} INT COMMENT '{'x' * 60_000}'"
        record = changed(PLANT, record, ddl(long), number, "k")
    assert sum(len(each.text) for each in record.versions) <= VERSIONS_BYTES_MAX
    assert len(write_record(record)) < 1 << 20


def test_records_are_read_again() -> None:
    record = first()
    assert read_record_untrusted(key_of(PLANT), write_record(record)) == record
    for key, value in [
        ("other", write_record(record)),
        (key_of(PLANT), b"{}"),
        (key_of(PLANT), b"\xff"),
        (key_of(PLANT), write_record(TopicSchema(PLANT, Mode.OFF, Compatibility.NONE, ()))),
        (key_of(Pattern(">")), write_record(TopicSchema("a..b", Mode.OFF, Compatibility.NONE, record.versions))),
    ]:
        assert read_record_untrusted(key, value) is None


def test_a_version_that_cannot_be_read_is_left_out() -> None:
    record = changed(PLANT, first(), ddl("id BIGINT, t INT"), 2, "k")
    later = TopicSchema(record.pattern, record.mode, record.compatibility, tuple(reversed(record.versions)))
    latest, others = parsed_versions(later)
    assert latest is not None and latest.text == "id BIGINT" and [each.text for each in others] == ["id BIGINT, t INT"]


@pytest.mark.parametrize(
    ("topic", "patterns", "counts"),
    [
        ("plant.a.temp", [">", "plant.>", "plant.*.temp", "plant.a.temp"], "plant.a.temp"),
        ("plant.a.temp", [">", "plant.>", "plant.*.temp"], "plant.*.temp"),
        ("plant.a.temp", [">", "plant.>", "plant.*.*"], "plant.*.*"),
        ("plant.a.temp", [">", "plant.>"], "plant.>"),
        ("plant.a.temp", ["*.a.temp", "plant.>"], "plant.>"),
        ("plant.a.temp", ["*.a.temp", "plant.*.temp"], "plant.*.temp"),
        ("plant.a.temp", ["plant.a.*", "plant.*.temp"], "plant.a.*"),
        ("plant.a.temp", ["plant.b.>", "mill.>"], None),
    ],
)
def test_the_most_specific_pattern_counts(topic: str, patterns: list[str], counts: str | None) -> None:
    for order in permutations(map(Pattern, patterns)):
        assert most_specific(Topic(topic), order) == counts


@given(TOPICS, st.lists(PATTERNS, max_size=6))
def test_what_counts_matches_and_covers_nothing_else_that_does(topic: Topic, patterns: list[Pattern]) -> None:
    counts = most_specific(topic, patterns)
    matching = [each for each in patterns if matches(each, topic)]
    assert (counts is None) == (not matching)
    for other in matching:
        assert counts is not None
        if covers(counts, other):
            assert covers(other, counts), "a pattern inside of it would be more specific"


def test_an_error_names_every_event() -> None:
    one = SchemaBroken.of(Topic("a.b"), Pattern("a.>"), 3, 2, Fault("temp", "is required"))
    more = SchemaBroken.of(Topic("a.b"), Pattern("a.>"), 3, 5, Fault("", "the payload is not UTF-8"))
    error = one.with_others({5: more})
    assert str(error) == (
        "the event breaks the schema of its topic: temp: is required "
        "(topic a.b, schema a.>, version 3, event 2, and 1 more events)"
    )
    by_event = error.by_event()
    assert sorted(by_event) == [2, 5]
    assert by_event[2].fault == Fault("temp", "is required")
    assert str(by_event[5].fault) == "the payload is not UTF-8"


def test_bad_schemas_name_the_place() -> None:
    with pytest.raises(BadSchema, match=r"\(at spot.x\)"):
        parse_schema(
            Kind.JSON_SCHEMA,
            '{"type":"object","properties":{"spot":{"type":"object","properties":{"x":{"type":"integer","multipleOf":2}}}}}',
        )
