"""Data of the two-way events: Discover and Resolve, Query and Retrieve, Update and Complete, Call and Return.

Each checks itself when created. Members that are None (in Return: UNSET, because null can be a result) stay out of the
JSON. ``response_problem`` tells whether an answer fits its question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import UNSET, UnsetType

from weft.errors import UsageError
from weft.wire.coaty.filters import ContextFilter, ObjectFilter
from weft.wire.coaty.joins import JoinCondition
from weft.wire.coaty.jsonvalues import Json, JsonObject
from weft.wire.coaty.matching import matches
from weft.wire.coaty.names import require_uuid, shown
from weft.wire.coaty.objects import CORE_TYPES, CoatyObject, require_object, require_objects
from weft.wire.coaty.one_way import require_private_data, require_published_object, require_strings

COATY_TYPES_MAX: Final = 256  # core or object types of a Discover or Query: looked through for each candidate
EVERYTHING: Final = ObjectFilter()

INVALID_PARAMETERS: Final = -32602
"""Code of a Return error, taken from JSON-RPC; applications choose theirs outside of -32768 to -32000."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Who has this object? By object id, by external id (with types or with object id), or by types alone."""

    external_id: str | None = None
    object_id: str | None = None
    object_types: Sequence[str] | None = None
    core_types: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.external_id is not None and not isinstance(self.external_id, str):
            raise UsageError("externalId is not a string", got=shown(self.external_id))
        if self.object_id is not None:
            require_uuid(self.object_id, "objectId")
            if self.object_types is not None or self.core_types is not None:
                raise UsageError("Discover by objectId takes no types")
            return
        if self.external_id is None:
            _require_one_kind_of_types(self.object_types, self.core_types)
        _require_types(self.object_types, self.core_types)

    def matches(self, candidate: CoatyObject) -> bool:
        """Whether the object is one that is looked for."""
        return (
            (self.object_id is None or candidate.get("objectId") == self.object_id)
            and (self.external_id is None or candidate.get("externalId") == self.external_id)
            and _has_type(candidate, self.object_types, self.core_types)
        )


@dataclass(frozen=True, slots=True)
class Resolve:
    """The answer to Discover: the object, or objects related to it, or both."""

    object: CoatyObject | None = None
    related_objects: Sequence[CoatyObject] | None = None
    private_data: JsonObject | None = None

    def __post_init__(self) -> None:
        if self.object is None and self.related_objects is None:
            raise UsageError("Resolve carries object, relatedObjects or both")
        if self.object is not None:
            require_object(self.object, "object")
        if self.related_objects is not None:
            require_objects(self.related_objects, "relatedObjects")
        require_private_data(self.private_data)


@dataclass(frozen=True, slots=True)
class Query:
    """Which objects of these types meet this filter? Their references may be resolved by join conditions."""

    object_types: Sequence[str] | None = None
    core_types: Sequence[str] | None = None
    object_filter: ObjectFilter = EVERYTHING
    object_join_conditions: tuple[JoinCondition, ...] = ()

    def __post_init__(self) -> None:
        _require_one_kind_of_types(self.object_types, self.core_types)
        _require_types(self.object_types, self.core_types)

    def matches(self, candidate: CoatyObject) -> bool:
        """Whether the object is of a type asked for and meets the filter; raise only BadCoatyMessage.

        The reference's own method says yes to nearly everything (it joins the three demands by "or").
        """
        return _has_type(candidate, self.object_types, self.core_types) and matches(candidate, self.object_filter)


@dataclass(frozen=True, slots=True)
class Retrieve:
    """The answer to Query."""

    objects: Sequence[CoatyObject]
    private_data: JsonObject | None = None

    def __post_init__(self) -> None:
        require_objects(self.objects, "objects")
        require_private_data(self.private_data)


@dataclass(frozen=True, slots=True)
class Update:
    """A request that an object become this one, for observers of its core type or its object type."""

    object: CoatyObject

    def __post_init__(self) -> None:
        require_published_object(self.object)


@dataclass(frozen=True, slots=True)
class Complete:
    """The answer to Update: the object as it is now."""

    object: CoatyObject
    private_data: JsonObject | None = None

    def __post_init__(self) -> None:
        require_object(self.object, "object")
        require_private_data(self.private_data)


@dataclass(frozen=True, slots=True)
class Call:
    """A remote operation, to be performed only by agents whose context matches the filter."""

    parameters: Sequence[Json] | JsonObject | None = None
    filter: ContextFilter | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parameters, list | tuple | dict | None):
            raise UsageError("parameters are neither list nor JSON object", got=shown(self.parameters))

    def concerns(self, context: JsonObject | None) -> bool:
        """Whether an agent that performs the operation in this context is meant; raise only BadCoatyMessage.

        An agent without a context performs every call; an agent with a context performs no call without a filter.
        """
        if context is None:
            return True
        return self.filter is not None and matches(context, self.filter)


@dataclass(frozen=True, slots=True)
class CallError:
    """Why an operation failed."""

    code: int
    message: str

    def __post_init__(self) -> None:
        if type(self.code) is not int or type(self.message) is not str:
            raise UsageError("error is not a whole number and a message", code=shown(self.code))


@dataclass(frozen=True, slots=True)
class Return:
    """The answer to Call: a result, which may be null, or an error."""

    result: Json | UnsetType = UNSET
    error: CallError | None = None
    execution_info: Json | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.result is UNSET) == (self.error is None):
            raise UsageError("Return carries either result or error")


Request: TypeAlias = Discover | Query | Update | Call
Response: TypeAlias = Resolve | Retrieve | Complete | Return


def response_problem(request: Request, response: Response) -> str | None:
    """Why an answer does not fit its question; None if it does."""
    match request, response:
        case Discover(), Resolve(object=None):
            return None
        case Discover(), Resolve(object=found) if found is not None:
            return None if request.matches(found) else "resolved object is not one that was looked for"
        case Query(), Retrieve():
            fits = all(_has_type(found, request.object_types, request.core_types) for found in response.objects)
            return None if fits else "retrieved object is of a type not asked for"
        case Update(), Complete():
            fits = request.object["objectId"] == response.object["objectId"]
            return None if fits else "completed object is not the one to be updated"
        case Call(), Return():
            return None
        case _:
            return f"{type(response).__name__} is not an answer to {type(request).__name__}"


def _has_type(candidate: CoatyObject, object_types: Sequence[str] | None, core_types: Sequence[str] | None) -> bool:
    return (object_types is None or candidate.get("objectType") in object_types) and (
        core_types is None or candidate.get("coreType") in core_types
    )


def _require_one_kind_of_types(object_types: Sequence[str] | None, core_types: Sequence[str] | None) -> None:
    if (object_types is None) == (core_types is None):
        raise UsageError("give either objectTypes or coreTypes")


def _require_types(object_types: Sequence[str] | None, core_types: Sequence[str] | None) -> None:
    for what, types in (("objectTypes", object_types), ("coreTypes", core_types)):
        if types is not None:
            require_strings(types, what)
            if len(types) > COATY_TYPES_MAX:
                raise UsageError(f"{what} names too many types", have=len(types), limit=COATY_TYPES_MAX)
    for name in core_types or ():
        if name not in CORE_TYPES:
            raise UsageError("coreTypes names an unknown core type", got=shown(name))
