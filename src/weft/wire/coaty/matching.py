"""Object filters applied: does an object match, and which objects does a query get.

The work is counted, because the filter is a peer's and the objects may be large: past the bound, BadCoatyMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, assert_never

from weft.wire.coaty.errors import BadCoatyMessage
from weft.wire.coaty.filters import Combine, Condition, ContextFilter, ObjectFilter, Operator, Order, Path
from weft.wire.coaty.jsonvalues import Json, JsonObject, same
from weft.wire.coaty.text import like, sort_key

COATY_MATCH_STEPS_MAX: Final = 100_000  # of matching one object: about 50 ms, then the filter is refused
COATY_QUERY_STEPS_MAX: Final = 2_000_000  # of matching all objects of a query: about a second; 200,000 simple tests


# A step is what takes about half a microsecond.
_STEPS_PER_CONDITION = 8
_STEPS_PER_CONTAINED = 2
_CHARS_PER_STEP = 64  # of regular-expression work, which C does


class _Missing:
    """The value of a property that is not there; JSON's null is there."""


MISSING: Final = _Missing()


class Steps:
    """How much more work an evaluation may take."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise BadCoatyMessage("filter is too costly to evaluate")


def matches(value: JsonObject, wanted: ContextFilter) -> bool:
    """Whether an object (or a context) meets the conditions of a filter; raise only BadCoatyMessage."""
    return _matches(value, wanted, Steps(COATY_MATCH_STEPS_MAX))


def select(objects: Iterable[JsonObject], wanted: ObjectFilter) -> list[JsonObject]:
    """The objects a filter asks for, in its order, skipped and taken as it says; raise only BadCoatyMessage."""
    steps = Steps(COATY_QUERY_STEPS_MAX)
    selected = [value for value in objects if _matches(value, wanted, steps)]
    for order in reversed(wanted.order_by):  # sorting is stable, so the first order, applied last, counts most
        selected.sort(key=partial(_order_key, order.path, steps), reverse=order.order is Order.DESCENDING)
    first = wanted.skip or 0
    return selected[first:] if wanted.take is None else selected[first : first + wanted.take]


def property_of(value: Json, path: Path) -> Json | _Missing:
    """The property at a path. Elements of arrays go by their index, and arrays have a length, as in JavaScript."""
    for name in path:
        match value:
            case dict() if name in value:
                value = value[name]
            case list() | tuple() if name == "length":
                value = len(value)
            case list() | tuple() if _is_index(name) and int(name) < len(value):
                value = value[int(name)]
            case _:
                return MISSING
    return value


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= 9 and (name == "0" or name[0] != "0")


def _matches(value: JsonObject, wanted: ContextFilter, steps: Steps) -> bool:
    met = (_meets(value, condition, steps) for condition in wanted.conditions)
    return all(met) if wanted.combine is Combine.AND else any(met)


def _meets(value: JsonObject, condition: Condition, steps: Steps) -> bool:
    found = property_of(value, condition.path)
    steps.take(_STEPS_PER_CONDITION + condition.nodes)
    if isinstance(found, _Missing):
        return condition.operator is Operator.NOT_EXISTS
    operands = condition.operands
    match condition.operator:
        case Operator.EXISTS:
            return True
        case Operator.NOT_EXISTS:
            return False
        case Operator.LESS_THAN:
            return _compare(found, operands[0], steps, lambda a, b: a < b)
        case Operator.LESS_THAN_OR_EQUAL:
            return _compare(found, operands[0], steps, lambda a, b: a <= b)
        case Operator.GREATER_THAN:
            return _compare(found, operands[0], steps, lambda a, b: a > b)
        case Operator.GREATER_THAN_OR_EQUAL:
            return _compare(found, operands[0], steps, lambda a, b: a >= b)
        case Operator.BETWEEN:
            return _between(found, operands, steps) is True
        case Operator.NOT_BETWEEN:
            return _between(found, operands, steps) is False
        case Operator.LIKE:
            return _like(found, operands[0], steps)
        case Operator.EQUALS:
            return same(found, operands[0])
        case Operator.NOT_EQUALS:
            return not same(found, operands[0])
        case Operator.CONTAINS:
            return contains(found, operands[0], steps)
        case Operator.NOT_CONTAINS:
            return not contains(found, operands[0], steps)
        case Operator.IN:
            return any(same(item, found) for item in operands[0])
        case Operator.NOT_IN:
            return not any(same(item, found) for item in operands[0])
    assert_never(condition.operator)


def _compare(found: Json, operand: Json, steps: Steps, holds: Callable[[Any, Any], bool]) -> bool:
    """Compare strings with strings and numbers with numbers. Other pairs have no order, so no comparison of them is
    true.
    """
    match found, operand:
        case str(), str():
            steps.take(len(found) + len(operand))
            return holds(sort_key(found), sort_key(operand))
        case ((None | bool() | int() | float()), (int() | float())):
            return holds(found or 0, operand)  # null and false count as 0, true as 1, as in JavaScript
        case _:
            return False


def _between(found: Json, bounds: tuple[Json, ...], steps: Steps) -> bool | None:
    """Whether a value lies within two bounds, given in either order; None if it cannot be compared with them."""
    low, high = bounds
    if not _compare(low, high, steps, lambda a, b: a <= b):
        low, high = high, low
    if _compare(found, low, steps, lambda a, b: a >= b) and _compare(found, high, steps, lambda a, b: a <= b):
        return True
    outside = _compare(found, low, steps, lambda a, b: a < b) or _compare(found, high, steps, lambda a, b: a > b)
    return False if outside else None


def _like(found: Json, pattern: str, steps: Steps) -> bool:
    if not isinstance(found, str):
        return False
    steps.take(len(found) * len(pattern) // _CHARS_PER_STEP)
    return like(pattern, found)


def contains(outer: Json, inner: Json, steps: Steps) -> bool:
    """Whether ``inner`` is what remains of ``outer`` after leaving out members and elements at any depth.

    At the top, an array also contains each of its elements that is neither array nor object.
    """
    if isinstance(outer, list | tuple) and not isinstance(inner, list | tuple | dict):
        steps.take(len(outer))
        return any(same(item, inner) for item in outer)
    return _contains(outer, inner, steps)


def _contains(outer: Json, inner: Json, steps: Steps) -> bool:
    steps.take(_STEPS_PER_CONTAINED)
    if isinstance(outer, list | tuple):
        return isinstance(inner, list | tuple) and all(
            any(_contains(item, wanted, steps) for item in outer) for wanted in inner
        )
    if isinstance(outer, dict):
        return isinstance(inner, dict) and all(
            name in outer and _contains(outer[name], wanted, steps) for name, wanted in inner.items()
        )
    return same(outer, inner)


def _order_key(path: Path, steps: Steps, value: JsonObject) -> tuple[int, Any]:
    """Missing values first, then by kind, then by value; arrays and objects have no order among themselves."""
    steps.take(_STEPS_PER_CONDITION)
    match property_of(value, path):
        case _Missing():
            return 0, 0
        case None:
            return 1, 0
        case bool() as found:
            return 2, found
        case int() | float() as found:
            return 3, found
        case str() as found:
            steps.take(len(found))
            return 4, sort_key(found)
        case _:
            return 5, 0
