"""What makes a Coaty object, held against the reference's own judgement of samples and of thousands of changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.wire.coaty.samples import motor, uuid, vectors
from weft.errors import UsageError
from weft.limits import COATY_JSON_DEPTH_MAX
from weft.wire.coaty import CoreType, require_object

VALIDITY = vectors("validity.json")


def accepts(value: Any) -> bool:
    try:
        require_object(value, "object")
    except UsageError:
        return False
    return True


def changed(sample: Any, change: dict[str, Any]) -> Any:
    """A sample with the member at a path replaced, or removed if there is nothing to replace it with."""
    result = deepcopy(sample)
    *path, last = change["at"].split(".")
    inner = result
    for name in path:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name]
    if "to" in change:
        inner[last] = change["to"]
    else:
        del inner[last]
    return result


@pytest.mark.req("COA-05", "COA-06")
@pytest.mark.parametrize("number", range(len(VALIDITY["samples"])))
def test_the_reference_agrees(number: int) -> None:
    sample = VALIDITY["samples"][number]
    assert accepts(sample)
    changes = [change for change in VALIDITY["objects"] if change["sample"] == number]
    assert changes
    for change in changes:
        assert accepts(changed(sample, change)) == change.get("ours", change["reference"]), change


def test_all_core_types_are_sampled() -> None:
    assert {sample["coreType"] for sample in VALIDITY["samples"]} == set(CoreType)
    assert CoreType.TASK.object_type == "coaty.Task"


@pytest.mark.req("COA-06")
@pytest.mark.parametrize(
    "object_id",
    ["", "x", uuid(1).upper(), uuid(1).replace("-4", "-1"), uuid(1).replace("-8", "-7"), uuid(1)[:-1], uuid(1) + "\n"],
)
def test_object_ids_are_lower_case_uuids_of_version_4(object_id: str) -> None:
    with pytest.raises(UsageError, match=r"object\.objectId is not a lower-case UUID of version 4"):
        require_object(motor(objectId=object_id), "object")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, r"object is no object \(got None\)"),
        ([], r"object is no object \(got list\)"),
        ({}, r"object: Object missing required field `objectId`"),
        (motor(coreType="Robot"), r"object\.coreType is unknown \(got 'Robot'\)"),
        (motor(name=7), r"object: Expected `str`, got `int` - at `\$\.name`"),
        (motor(coreType="Task"), r"object \(Task\): Object missing required field `creatorId`"),
        (
            motor(coreType="IoNode", ioActors=[motor()]),
            r"object\.ioActors\[0\] is of another core type \(need IoActor\)",
        ),
        (motor(coreType="Annotation", creationTimestamp=10**400), r"Annotation"),
    ],
)
def test_complaints_say_where(value: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        require_object(value, "object")


def test_endless_snapshots() -> None:
    snapshot: dict[str, Any] = motor(
        coreType="Snapshot", parentObjectId=uuid(2), creationTimestamp=1, creatorId=uuid(3)
    )
    snapshot["object"] = snapshot
    with pytest.raises(UsageError, match=f"nested too deep .limit {COATY_JSON_DEPTH_MAX}"):
        require_object(snapshot, "object")
