"""Filters and what they match, held against the answers of the reference; and the bounds on their cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.coaty.samples import json_values, motor, vectors
from weft.errors import UsageError
from weft.wire.coaty import (
    EVERYTHING,
    BadCoatyMessage,
    Call,
    Combine,
    Condition,
    ContextFilter,
    Discover,
    ObjectFilter,
    Operator,
    Order,
    OrderBy,
    Query,
    matches,
    path_of,
    select,
    where,
)
from weft.wire.coaty.filters import (
    COATY_FILTER_CONDITIONS_MAX,
    COATY_FILTER_NODES_MAX,
    COATY_FILTER_ORDERS_MAX,
    COATY_FILTER_PATH_MAX,
    COATY_LIKE_CHARS_MAX,
    read_context_filter,
    read_object_filter,
)
from weft.wire.coaty.matching import MISSING, Steps, contains, property_of

FILTERS = vectors("filters.json")
VALIDITY = vectors("validity.json")


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("operator", Operator)
def test_the_reference_finds_the_same(operator: Operator) -> None:
    entries = [entry for entry in FILTERS["matches"] if entry["condition"][1][0] == operator]
    assert {entry["reference"] for entry in entries} == {True, False}
    for entry in entries:
        wanted = read_object_filter({"conditions": entry["condition"]})
        assert matches(FILTERS["object"], wanted) == entry["reference"], entry


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", FILTERS["deviations"], ids=lambda entry: str(entry["condition"]))
def test_where_the_reference_stumbles(entry: dict[str, Any]) -> None:
    wanted = read_object_filter({"conditions": entry["condition"]})
    assert matches(entry.get("object", FILTERS["object"]), wanted) == entry["ours"], entry["why"]


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", FILTERS["combined"], ids=lambda entry: str(entry["filter"]))
def test_conditions_combined(entry: dict[str, Any]) -> None:
    assert matches(FILTERS["object"], read_object_filter(entry["filter"])) == entry["reference"]


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", FILTERS["select"], ids=lambda entry: str(entry["filter"]))
def test_order_skip_and_take(entry: dict[str, Any]) -> None:
    selected = select(FILTERS["stock"], read_object_filter(entry["filter"]))
    assert [found["objectId"] for found in selected] == entry["reference"]


def test_taking_none_is_none() -> None:
    assert select(FILTERS["stock"], ObjectFilter(take=0)) == []


def test_values_of_different_kinds_have_an_order_too() -> None:
    values: list[Any] = ["b", 2, None, True, {}, "a", False, 1.5]
    objects = [motor(v=value) for value in values] + [motor()]
    ascending = select(objects, ObjectFilter(order_by=(OrderBy(("v",)),)))
    assert [found.get("v", "missing") for found in ascending] == ["missing", None, False, True, 1.5, 2, "a", "b", {}]
    descending = select(objects, ObjectFilter(order_by=(OrderBy(("v",), Order.DESCENDING),)))
    assert descending == ascending[::-1]


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", VALIDITY["filters"], ids=lambda entry: str(entry["filter"]))
def test_the_reference_accepts_the_same_filters(entry: dict[str, Any]) -> None:
    if entry["reference"]:
        read = read_object_filter(entry["filter"])
        assert read_object_filter(read.to_json()) == read
    else:
        with pytest.raises(UsageError):
            read_object_filter(entry["filter"])


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", FILTERS["discover"], ids=lambda entry: str(entry["data"]))
def test_who_is_discovered(entry: dict[str, Any]) -> None:
    names = {
        "objectId": "object_id",
        "externalId": "external_id",
        "objectTypes": "object_types",
        "coreTypes": "core_types",
    }
    discover = Discover(**{names[name]: value for name, value in entry["data"].items()})
    assert [discover.matches(candidate) for candidate in FILTERS["candidates"]] == entry["reference"]


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", FILTERS["call"], ids=lambda entry: str(entry["data"]))
def test_who_is_called(entry: dict[str, Any]) -> None:
    call = Call(filter=read_context_filter(entry["data"]["filter"]) if "filter" in entry["data"] else None)
    assert [call.concerns(context) for context in FILTERS["contexts"]] == entry["reference"]


def test_a_query_asks_for_type_and_filter() -> None:
    query = Query(core_types=["CoatyObject"], object_filter=ObjectFilter((where("rpm", Operator.GREATER_THAN, 9),)))
    assert query.matches(motor(rpm=10))
    assert not query.matches(motor(rpm=9))
    assert not query.matches(motor(rpm=10, coreType="Identity"))
    assert Query(object_types=["com.example.Motor"]).matches(motor())


@pytest.mark.parametrize(
    ("operator", "operands"),
    [
        (Operator.EXISTS, (1,)),
        (Operator.EQUALS, ()),
        (Operator.EQUALS, (1, 2)),
        (Operator.LESS_THAN, (None,)),
        (Operator.LESS_THAN, (True,)),
        (Operator.GREATER_THAN, ([1],)),
        (Operator.BETWEEN, (1,)),
        (Operator.BETWEEN, (1, "2")),
        (Operator.NOT_BETWEEN, (None, None)),
        (Operator.LIKE, (1,)),
        (Operator.LIKE, ("x" * (COATY_LIKE_CHARS_MAX + 1),)),
        (Operator.IN, (1,)),
        (Operator.NOT_IN, ({},)),
        (Operator.EQUALS, (float("nan"),)),
        (Operator.EQUALS, (b"",)),
    ],
)
def test_operands_that_an_operator_does_not_take(operator: Operator, operands: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        Condition(("a",), operator, operands)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Condition("a.b", Operator.EXISTS),  # type: ignore[arg-type]
        lambda: Condition(("a",) * (COATY_FILTER_PATH_MAX + 1), Operator.EXISTS),
        lambda: ContextFilter((where("a", Operator.EXISTS),) * (COATY_FILTER_CONDITIONS_MAX + 1)),
        lambda: ContextFilter((where("a", Operator.IN, [0] * COATY_FILTER_NODES_MAX),)),
        lambda: ContextFilter((where("a", Operator.IN, [0] * (COATY_FILTER_NODES_MAX // 2)),) * 2),
        lambda: ObjectFilter(order_by=(OrderBy(("a",)),) * (COATY_FILTER_ORDERS_MAX + 1)),
        lambda: ObjectFilter(skip=-1),
        lambda: read_object_filter({"conditions": {"or": [["a", [9]]] * 1_000_000}}),
        lambda: read_object_filter({"orderByProperties": [["a", "Asc"]] * 1_000_000}),
        lambda: read_object_filter({"conditions": [".".join("a" * 100), [9]]}),
        lambda: read_object_filter({"skip": 1.5}),
        lambda: read_object_filter({"take": True}),
    ],
)
def test_bounds(build: Any) -> None:
    with pytest.raises(UsageError):
        build()


PARTS = 50_000


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        (motor(a=[[n] for n in range(PARTS)]), where("a", Operator.CONTAINS, [[-1], [-2], [-3]])),
        (motor(a="x" * 1_000_000), where("a", Operator.LIKE, "%" + "x" * 500 + "_y%")),
        (motor(a="x" * 1_000_000), where("a", Operator.LESS_THAN, "x")),
    ],
    ids=["contains", "like", "order"],
)
def test_costly_filters_are_given_up(value: dict[str, Any], condition: Condition) -> None:
    with pytest.raises(BadCoatyMessage, match="too costly"):
        matches(value, ContextFilter((condition,)))


def test_a_query_over_many_objects_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = where("a", Operator.IN, list(range(1000)))
    assert len(select([motor(a=5)] * 100, ObjectFilter((condition,)))) == 100
    monkeypatch.setattr("weft.wire.coaty.matching.COATY_QUERY_STEPS_MAX", 100_000)
    with pytest.raises(BadCoatyMessage, match="too costly"):
        select([motor(a=5)] * 100, ObjectFilter((condition,)))


paths = st.lists(st.sampled_from(["a", "b", "x.y", ""]), max_size=3).map(tuple)
numbers = st.integers(-5, 5) | st.floats(-5, 5)
bounds = numbers | st.text("ab", max_size=2)
conditions = st.one_of(
    st.builds(Condition, paths, st.sampled_from([Operator.EXISTS, Operator.NOT_EXISTS])),
    st.builds(
        Condition,
        paths,
        st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS, Operator.CONTAINS, Operator.NOT_CONTAINS]),
        st.tuples(json_values),
    ),
    st.builds(Condition, paths, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.tuples(st.lists(json_values))),
    st.builds(Condition, paths, st.sampled_from(list(Operator)[:4]), st.tuples(bounds)),
    st.builds(Condition, paths, st.just(Operator.BETWEEN), st.tuples(numbers, numbers)),
    st.builds(Condition, paths, st.just(Operator.LIKE), st.tuples(st.text("ab%_\\"))),
)
filters = st.builds(
    ObjectFilter,
    st.lists(conditions, max_size=3).map(tuple),
    st.sampled_from(Combine),
    st.lists(st.builds(OrderBy, paths, st.sampled_from(Order)), max_size=2).map(tuple),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 5),
)


@pytest.mark.req("COA-05")
@given(filters)
def test_filters_survive_the_wire(wanted: ObjectFilter) -> None:
    assert read_object_filter(wanted.to_json()) == wanted


@given(filters, st.dictionaries(st.sampled_from(["a", "b", "x.y"]), json_values))
def test_any_filter_has_an_answer(wanted: ObjectFilter, value: dict[str, Any]) -> None:
    assert (select([value], ObjectFilter(wanted.conditions, wanted.combine)) == [value]) == matches(value, wanted)


NEGATIONS = {
    Operator.EQUALS: Operator.NOT_EQUALS,
    Operator.CONTAINS: Operator.NOT_CONTAINS,
    Operator.EXISTS: Operator.NOT_EXISTS,
    Operator.IN: Operator.NOT_IN,
}


@given(
    paths, st.sampled_from(list(NEGATIONS)), st.lists(json_values), st.dictionaries(st.sampled_from("ab"), json_values)
)
def test_negations(path: tuple[str, ...], operator: Operator, operand: list[Any], value: dict[str, Any]) -> None:
    """Of a condition and its opposite, exactly one holds of a property that is there."""
    operands = () if operator is Operator.EXISTS else (operand,)
    held = [
        matches(value, ContextFilter((Condition(path, each, operands),))) for each in (operator, NEGATIONS[operator])
    ]
    if property_of(value, path) is MISSING:
        assert held == [False, operator is Operator.EXISTS]
    else:
        assert sum(held) == 1


@given(json_values)
def test_everything_contains_itself(value: Any) -> None:
    assert contains(value, value, Steps(10_000))


def test_everything_matches_no_demand() -> None:
    assert matches({}, EVERYTHING)
    assert path_of("a.b") == ("a", "b")
