"""Joins against the reference's in-memory store, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.coaty.samples import motor, uuid, vectors
from weft.errors import UsageError
from weft.wire.coaty import BadCoatyMessage, JoinCondition, join
from weft.wire.coaty.joins import COATY_JOINED_MAX, COATY_JOINS_MAX, read_join_conditions

FILTERS = vectors("filters.json")


@pytest.mark.req("COA-05")
def test_the_reference_joins_the_same() -> None:
    assert len(FILTERS["joins"]) > 50
    for entry in FILTERS["joins"]:
        (condition,) = read_join_conditions(entry["condition"])
        before = dict(entry["source"])
        assert join([entry["source"]], condition, FILTERS["related"], entry["fromProperty"]) == [entry["reference"]], (
            entry
        )
        assert entry["source"] == before, "results are copies"


@pytest.mark.req("COA-05")
@pytest.mark.parametrize("entry", vectors("validity.json")["joins"], ids=lambda entry: str(entry["conditions"]))
def test_the_reference_accepts_the_same_conditions(entry: dict[str, Any]) -> None:
    if entry["reference"]:
        read = read_join_conditions(entry["conditions"])
        assert read_join_conditions([condition.to_json() for condition in read]) == read
    else:
        with pytest.raises(UsageError):
            read_join_conditions(entry["conditions"])


@pytest.mark.parametrize("reference", ["abc", {"a": 1}, 5, None])
def test_an_array_property_that_is_none_joins_nothing(reference: Any) -> None:
    condition = JoinCondition("ref", "as", is_local_property_array=True)
    assert join([motor(ref=reference)], condition, [motor(key="a")], "key") == [motor(**{"ref": reference, "as": []})]


def test_bounds() -> None:
    with pytest.raises(UsageError, match="too many join conditions"):
        read_join_conditions([{"localProperty": "a", "asProperty": "b"}] * (COATY_JOINS_MAX + 1))
    related = [motor(objectId=uuid(n), key="k") for n in range(1000)]
    results = [motor(ref="k")] * (COATY_JOINED_MAX // 1000)
    assert len(join(results, JoinCondition("ref", "as"), related, "key")) == 10
    with pytest.raises(BadCoatyMessage, match="joins too many objects"):
        join([*results, motor(ref="k")], JoinCondition("ref", "as"), related, "key")
    with pytest.raises(BadCoatyMessage, match="joins too many objects"):
        join([motor(ref=["k"] * 1_000_000)], JoinCondition("ref", "as", is_local_property_array=True), related, "key")
