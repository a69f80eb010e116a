"""Object filters and context filters: which objects a Query or a Call is about, in which order, how many.

A filter is a value here; ``matching.py`` applies it. On the wire::

    {"conditions": condition | {"and": [condition, ...]} | {"or": [condition, ...]},
     "orderByProperties": [[property, "Asc" | "Desc"], ...], "skip": n, "take": n}

where a condition is ``[property, [operator, operand, ...]]`` and a property is ``"a.b"`` or ``["a", "b"]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from weft.errors import UsageError
from weft.limits import COATY_JSON_DEPTH_MAX
from weft.wire.coaty.jsonvalues import Json, JsonObject, count_nodes, is_number, require_json
from weft.wire.coaty.names import shown

COATY_FILTER_CONDITIONS_MAX: Final = 256  # of one object filter; people write a handful
COATY_FILTER_PATH_MAX: Final = COATY_JSON_DEPTH_MAX  # no property lies deeper
COATY_FILTER_ORDERS_MAX: Final = 16  # each one sorts the whole result again
COATY_FILTER_NODES_MAX: Final = 4096  # JSON values in all operands, and pairs of characters in Like patterns
COATY_LIKE_CHARS_MAX: Final = 1024  # of one Like pattern


class Operator(IntEnum):
    """What a condition asks of a property; the number is the wire's."""

    LESS_THAN = 0
    LESS_THAN_OR_EQUAL = 1
    GREATER_THAN = 2
    GREATER_THAN_OR_EQUAL = 3
    BETWEEN = 4
    NOT_BETWEEN = 5
    LIKE = 6
    EQUALS = 7
    NOT_EQUALS = 8
    EXISTS = 9
    NOT_EXISTS = 10
    CONTAINS = 11
    NOT_CONTAINS = 12
    IN = 13
    NOT_IN = 14


OPERANDS: Final = {Operator.BETWEEN: 2, Operator.NOT_BETWEEN: 2, Operator.EXISTS: 0, Operator.NOT_EXISTS: 0}
"""How many operands an operator takes, where it is not one."""

_OPERATORS = {int(operator): operator for operator in Operator}
_COMPARISONS = frozenset(
    {Operator.LESS_THAN, Operator.LESS_THAN_OR_EQUAL, Operator.GREATER_THAN, Operator.GREATER_THAN_OR_EQUAL}
)


class Combine(StrEnum):
    AND = "and"
    OR = "or"


class Order(StrEnum):
    ASCENDING = "Asc"
    DESCENDING = "Desc"


Path = tuple[str, ...]
"""Names of nested properties from the outside in; the empty path is the object itself."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One demand on one property; ``where`` makes them with less writing."""

    path: Path
    operator: Operator
    operands: tuple[Json, ...] = ()
    nodes: int = field(init=False, repr=False, compare=False)  # JSON values in the operands: the cost of comparing

    def __post_init__(self) -> None:
        _require_path(self.path)
        nodes = sum(count_nodes(operand, COATY_FILTER_NODES_MAX) for operand in self.operands)
        if nodes > COATY_FILTER_NODES_MAX:  # before anything else walks through them
            raise UsageError("operands are too large", limit=COATY_FILTER_NODES_MAX)
        _require_operands(self.operator, self.operands)
        if self.operator is Operator.LIKE:
            nodes += len(self.operands[0]) // 2  # for compiling the pattern
        object.__setattr__(self, "nodes", nodes)

    def to_json(self) -> Json:
        return [_write_path(self.path), [int(self.operator), *self.operands]]


def where(path: str, operator: Operator, *operands: Json) -> Condition:
    """``where("position.x", Operator.BETWEEN, 1, 5)``"""
    return Condition(path_of(path), operator, operands)


def path_of(dotted: str) -> Path:
    """A path written with dots between the names."""
    return tuple(dotted.split("."))


@dataclass(frozen=True, slots=True)
class ContextFilter:
    """Conditions on one object. Without conditions, every object matches if all conditions must hold, and none if one
    is enough.
    """

    conditions: tuple[Condition, ...] = ()
    combine: Combine = Combine.AND

    def __post_init__(self) -> None:
        if len(self.conditions) > COATY_FILTER_CONDITIONS_MAX:
            raise UsageError("filter has too many conditions", limit=COATY_FILTER_CONDITIONS_MAX)
        if sum(condition.nodes for condition in self.conditions) > COATY_FILTER_NODES_MAX:
            raise UsageError("filter has too many operands", limit=COATY_FILTER_NODES_MAX)

    def to_json(self) -> JsonObject:
        conditions = [condition.to_json() for condition in self.conditions]
        match self.combine, conditions:
            case Combine.AND, []:
                return {}
            case Combine.AND, [condition]:
                return {"conditions": condition}
            case _:
                return {"conditions": {str(self.combine): conditions}}


@dataclass(frozen=True, slots=True)
class OrderBy:
    path: Path
    order: Order = Order.ASCENDING

    def __post_init__(self) -> None:
        _require_path(self.path)

    def to_json(self) -> Json:
        return [_write_path(self.path), str(self.order)]


@dataclass(frozen=True, slots=True)
class ObjectFilter(ContextFilter):
    """Conditions on objects, and which part of the matching objects is wanted, in which order."""

    order_by: tuple[OrderBy, ...] = ()
    skip: int | None = None
    take: int | None = None

    def __post_init__(self) -> None:
        ContextFilter.__post_init__(self)
        if len(self.order_by) > COATY_FILTER_ORDERS_MAX:
            raise UsageError("filter orders by too many properties", limit=COATY_FILTER_ORDERS_MAX)
        for name, count in (("skip", self.skip), ("take", self.take)):
            if count is not None and count < 0:
                raise UsageError(f"{name} is negative", got=count)

    def to_json(self) -> JsonObject:
        members = ContextFilter.to_json(self)
        if self.order_by:
            members["orderByProperties"] = [order.to_json() for order in self.order_by]
        if self.skip is not None:
            members["skip"] = self.skip
        if self.take is not None:
            members["take"] = self.take
        return members


def read_context_filter(value: Json) -> ContextFilter:
    """A context filter from JSON; raise UsageError, which readers of peers' messages translate."""
    return ContextFilter(*_read_conditions(_require_members(value)))


def read_object_filter(value: Json) -> ObjectFilter:
    """An object filter from JSON; raise UsageError, which readers of peers' messages translate."""
    members = _require_members(value)
    orders = members.get("orderByProperties", [])
    if not isinstance(orders, list):
        raise UsageError("orderByProperties is not a list", got=shown(orders))
    return ObjectFilter(
        *_read_conditions(members),
        order_by=tuple(map(_read_order, orders[: COATY_FILTER_ORDERS_MAX + 1])),
        skip=_read_count(members, "skip"),
        take=_read_count(members, "take"),
    )


def _require_members(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise UsageError("filter is not a JSON object", got=shown(value))
    return value


def _read_conditions(members: JsonObject) -> tuple[tuple[Condition, ...], Combine]:
    match members.get("conditions", {}):
        case [_, _] as condition:
            return (_read_condition(condition),), Combine.AND
        case {"and": _, "or": _}:
            raise UsageError("conditions are combined by both and, or")
        case {"and": list() as conditions}:
            return _read_condition_list(conditions), Combine.AND
        case {"or": list() as conditions}:
            return _read_condition_list(conditions), Combine.OR
        case dict() as neither if neither.keys().isdisjoint(Combine):
            return (), Combine.AND
        case _:
            raise UsageError("conditions are neither a condition nor a list of them under and, or")


def _read_condition_list(conditions: list[Json]) -> tuple[Condition, ...]:
    return tuple(map(_read_condition, conditions[: COATY_FILTER_CONDITIONS_MAX + 1]))


def _read_condition(value: Json) -> Condition:
    match value:
        case [path, [int() as code, *operands]] if code in _OPERATORS and not isinstance(code, bool):
            operator = _OPERATORS[code]
            # The reference does not look at more operands than an operator takes.
            return Condition(_read_path(path), operator, tuple(operands[: OPERANDS.get(operator, 1)]))
        case _:
            raise UsageError("condition is not [property, [operator, operands]] with a known operator")


def _read_order(value: Json) -> OrderBy:
    match value:
        case [path, "Asc" | "Desc" as order]:
            return OrderBy(_read_path(path), Order(order))
        case _:
            raise UsageError("order is not [property, Asc or Desc]")


def _read_count(members: JsonObject, name: str) -> int | None:
    count = members.get(name, 0)
    if not isinstance(count, int) or isinstance(count, bool):
        raise UsageError(f"{name} is not a whole number", got=shown(count))
    return count if name in members else None


def _read_path(value: Json) -> Path:
    match value:
        case str() if value:
            return path_of(value)
        case [*names] if all(isinstance(name, str) for name in names):
            return tuple(names)
        case _:
            raise UsageError("property is neither a name nor a list of names", got=shown(value))


def _write_path(path: Path) -> Json:
    dotted = ".".join(path)
    return dotted if dotted and path_of(dotted) == path else list(path)


def _require_path(path: Path) -> None:
    if isinstance(path, str):
        raise UsageError("path is a tuple of names: path_of(...) makes one", got=shown(path))
    if len(path) > COATY_FILTER_PATH_MAX:
        raise UsageError("property lies too deep", limit=COATY_FILTER_PATH_MAX)


def _require_operands(operator: Operator, operands: tuple[Json, ...]) -> None:
    """The reference leaves undefined what any others would mean; so asking with them is a mistake."""
    for operand in operands:
        require_json(operand, "operand")
    match operator, operands:
        case Operator.EXISTS | Operator.NOT_EXISTS, ():
            fits = True
        case Operator.EQUALS | Operator.NOT_EQUALS | Operator.CONTAINS | Operator.NOT_CONTAINS, (_,):
            fits = True
        case Operator.IN | Operator.NOT_IN, (values,):
            fits = isinstance(values, list | tuple)
        case Operator.BETWEEN | Operator.NOT_BETWEEN, (low, high):
            fits = (is_number(low) and is_number(high)) or (isinstance(low, str) and isinstance(high, str))
        case Operator.LIKE, (pattern,):
            fits = isinstance(pattern, str) and len(pattern) <= COATY_LIKE_CHARS_MAX
        case comparison, (bound,) if comparison in _COMPARISONS:
            fits = is_number(bound) or isinstance(bound, str)
        case _:
            fits = False
    if not fits:
        raise UsageError("operator does not take these operands", operator=operator.name, count=len(operands))
