"""Join conditions of a Query: put the objects to which a property refers into the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import UsageError
from weft.wire.coaty.errors import BadCoatyMessage
from weft.wire.coaty.jsonvalues import Json, JsonObject
from weft.wire.coaty.names import shown
from weft.wire.coaty.objects import CoatyObject

COATY_JOINS_MAX: Final = 16  # join conditions of one query
COATY_JOINED_MAX: Final = 10_000  # related objects put into one result; 2 MiB hold no more of them


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """``as_property`` of each result gets the objects that its ``local_property`` refers to.

    A list of objects, or the object itself if the relation is one to one and the property no array.
    """

    local_property: str
    as_property: str
    is_local_property_array: bool = False
    is_one_to_one_relation: bool = False

    def to_json(self) -> JsonObject:
        members: JsonObject = {"localProperty": self.local_property, "asProperty": self.as_property}
        if self.is_local_property_array:
            members["isLocalPropertyArray"] = True
        if self.is_one_to_one_relation:
            members["isOneToOneRelation"] = True
        return members


def read_join_conditions(value: Json) -> tuple[JoinCondition, ...]:
    """One condition or a list of them from JSON; raise UsageError, which readers of peers' messages translate."""
    conditions = value if isinstance(value, list) else [value]
    if len(conditions) > COATY_JOINS_MAX:
        raise UsageError("query has too many join conditions", have=len(conditions), limit=COATY_JOINS_MAX)
    return tuple(map(_read_condition, conditions))


def join(
    results: Iterable[CoatyObject], condition: JoinCondition, related: Iterable[CoatyObject], from_property: str
) -> list[CoatyObject]:
    """Copies of the results with the related objects whose ``from_property`` is what they refer to.

    References to nothing join nothing. Raise only BadCoatyMessage, if the peer asks for too much.
    """
    referable: dict[object, list[CoatyObject]] = {}
    for candidate in related:
        if from_property in candidate and (key := _key(candidate[from_property])) is not None:
            referable.setdefault(key, []).append(candidate)
    joined_count = 0
    joined_results = []
    for result in results:
        joined = _joined(result, condition, referable)
        joined_count += len(joined)
        if joined_count > COATY_JOINED_MAX:
            raise BadCoatyMessage("query joins too many objects", limit=COATY_JOINED_MAX)
        joined_results.append(_with_joined(result, condition, joined))
    return joined_results


def _joined(
    result: CoatyObject, condition: JoinCondition, referable: dict[object, list[CoatyObject]]
) -> list[CoatyObject]:
    if condition.local_property not in result:
        return []
    references = result[condition.local_property]
    if not condition.is_local_property_array:
        references = [references]
    elif not isinstance(references, list):
        return []
    joined: list[CoatyObject] = []
    for reference in references:
        found = referable.get(_key(reference), [])
        joined += found[:1] if condition.is_one_to_one_relation else found
        if len(joined) > COATY_JOINED_MAX:
            break
    return joined


def _with_joined(result: CoatyObject, condition: JoinCondition, joined: list[CoatyObject]) -> CoatyObject:
    if not condition.is_one_to_one_relation or condition.is_local_property_array:
        return {**result, condition.as_property: joined}
    if joined:
        return {**result, condition.as_property: joined[0]}
    return {name: value for name, value in result.items() if name != condition.as_property}


def _key(reference: Json) -> object:
    """For looking a reference up, so that true is not 1; None for arrays and objects, which refer to nothing."""
    match reference:
        case list() | tuple() | dict():
            return None
        case bool():
            return (bool, reference)
        case _:
            return (None, reference)


def _read_condition(value: Any) -> JoinCondition:
    match value:
        case {"localProperty": str() as local_property, "asProperty": str() as as_property}:
            pass
        case _:
            raise UsageError("join condition lacks localProperty or asProperty", got=shown(value))
    flags = {}
    for name in ("isLocalPropertyArray", "isOneToOneRelation"):
        flags[name] = value.get(name, False)
        if not isinstance(flags[name], bool):
            raise UsageError(f"{name} is neither true nor false", got=shown(flags[name]))
    return JoinCondition(local_property, as_property, flags["isLocalPropertyArray"], flags["isOneToOneRelation"])
