"""Coaty objects: JSON objects with mandatory properties, and the shape that each core type demands.

Objects stay plain dicts, because applications add properties of their own to them. What is checked is what the
reference checks before it accepts an object: without that, an event would be sent and silently ignored. On top of it,
``objectId`` has to be a UUID (COA-06).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from weft.errors import UsageError
from weft.limits import COATY_JSON_DEPTH_MAX
from weft.wire.coaty.jsonvalues import Json, JsonObject
from weft.wire.coaty.names import require_uuid, shown

CoatyObject: TypeAlias = JsonObject

OBJECT_TYPE_PREFIX: Final = "coaty."  # of the object types that are nothing but a core type


class CoreType(StrEnum):
    COATY_OBJECT = "CoatyObject"
    USER = "User"
    ANNOTATION = "Annotation"
    TASK = "Task"
    IO_CONTEXT = "IoContext"
    IO_NODE = "IoNode"
    IO_SOURCE = "IoSource"
    IO_ACTOR = "IoActor"
    IDENTITY = "Identity"
    LOG = "Log"
    LOCATION = "Location"
    SNAPSHOT = "Snapshot"

    @property
    def object_type(self) -> str:
        """The object type of objects that are nothing but this core type."""
        return OBJECT_TYPE_PREFIX + self


CORE_TYPES: Final = frozenset(CoreType)

_Text = Annotated[str, Meta(min_length=1)]
_OptionalText = _Text | UnsetType
_OptionalString = str | UnsetType
_OptionalNumber = float | UnsetType
_Flag = bool | UnsetType
_OptionalTexts = list[_Text] | UnsetType


class _Shape(msgspec.Struct, rename="camel"):
    """Properties of a JSON object and their types; others are the application's.

    Where the default is UNSET, a property may be absent; null is never the same as absent.
    """


class _CoatyObject(_Shape):
    object_id: str
    object_type: _Text
    core_type: str
    name: str
    parent_object_id: _OptionalText = UNSET
    external_id: _OptionalText = UNSET
    location_id: _OptionalText = UNSET
    is_deactivated: _Flag = UNSET


class _Names(_Shape):
    formatted: _OptionalText = UNSET
    family_name: _OptionalString = UNSET
    given_name: _OptionalString = UNSET
    middle_name: _OptionalString = UNSET
    honorific_prefix: _OptionalString = UNSET
    honorific_suffix: _OptionalString = UNSET

    def __post_init__(self) -> None:
        if (self.family_name is UNSET) != (self.given_name is UNSET):
            raise ValueError("familyName and givenName come together")
        if self.formatted is UNSET and self.family_name is UNSET:
            raise ValueError("names are either formatted or family and given name")


class _Attribute(_Shape):
    type: str
    value: str
    primary: _Flag = UNSET
    display: _OptionalString = UNSET


class _Address(_Attribute):
    formatted: _OptionalString = UNSET
    street_address: _OptionalString = UNSET
    locality: _OptionalString = UNSET
    region: _OptionalString = UNSET
    postal_code: _OptionalString = UNSET
    country: _OptionalString = UNSET


class _User(_Shape):
    names: _Names
    display_name: _OptionalString = UNSET
    nick_name: _OptionalString = UNSET
    title: _OptionalString = UNSET
    user_type: _OptionalString = UNSET
    preferred_language: _OptionalString = UNSET
    locale: _OptionalString = UNSET
    timezone: _OptionalString = UNSET
    active: _Flag = UNSET
    password: _OptionalString = UNSET
    emails: list[_Attribute] | UnsetType = UNSET
    phone_numbers: list[_Attribute] | UnsetType = UNSET
    ims: list[_Attribute] | UnsetType = UNSET
    photos: list[_Attribute] | UnsetType = UNSET
    addresses: list[_Address] | UnsetType = UNSET
    groups: list[_Attribute] | UnsetType = UNSET
    entitlements: list[Json] | UnsetType = UNSET
    roles: _OptionalTexts = UNSET
    x509_certificates: _OptionalTexts = UNSET


class _Variant(_Shape):
    variant: _Text
    download_url: str


class _Annotation(_Shape):
    type: Literal[0, 1, 2, 3, 4, 5, 6, 7]  # text, image, audio, video, 3D object, PDF, web document, live data
    creator_id: _Text
    creation_timestamp: float
    status: Literal[0, 1, 2, 3]  # stored locally, storage requested, published, outdated
    variants: list[_Variant] | UnsetType = UNSET


class _Task(_Shape):
    creator_id: _Text
    creation_timestamp: float
    status: Literal[0, 1, 2, 3, 4, 5, 6]  # pending, in progress, done, blocked, cancelled, request, request cancelled
    start_timestamp: _OptionalNumber = UNSET
    duration: _OptionalNumber = UNSET
    requirements: JsonObject | UnsetType = UNSET
    description: _OptionalString = UNSET
    assignee_object_id: _OptionalText = UNSET


class _IoPoint(_Shape):
    value_type: _Text
    external_route: _OptionalString = UNSET
    update_rate: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    use_raw_io_values: _Flag = UNSET


class _IoSource(_IoPoint):
    update_strategy: Literal[0, 1, 2, 3] | UnsetType = UNSET  # default, none, sample, throttle


class _IoNode(_Shape):
    io_sources: list[JsonObject] | UnsetType = UNSET
    io_actors: list[JsonObject] | UnsetType = UNSET
    characteristics: JsonObject | UnsetType = UNSET


class _PackageInfo(_Shape):
    name: str
    version: str


class _BuildInfo(_Shape):
    build_date: str
    build_mode: str


class _ConfigInfo(_Shape):
    service_host: str


class _AgentInfo(_Shape):
    package_info: _PackageInfo
    build_info: _BuildInfo
    config_info: _ConfigInfo


class _LogHost(_Shape):
    agent_info: _AgentInfo | UnsetType = UNSET
    pid: _OptionalNumber = UNSET
    hostname: _OptionalString = UNSET
    user_agent: _OptionalString = UNSET


class _Log(_Shape):
    log_level: Literal[10, 20, 30, 40, 50]  # debug, info, warning, error, fatal
    log_message: str
    log_date: str
    log_tags: _OptionalTexts = UNSET
    log_labels: JsonObject | UnsetType = UNSET
    log_host: _LogHost | UnsetType = UNSET


class _Coordinates(_Shape):
    latitude: float
    longitude: float
    accuracy: float
    altitude: _OptionalNumber = UNSET
    altitude_accuracy: _OptionalNumber = UNSET
    heading: _OptionalNumber = UNSET
    speed: _OptionalNumber = UNSET


class _GeoLocation(_Shape):
    timestamp: float
    coords: _Coordinates


class _Location(_Shape):
    geo_location: _GeoLocation


class _Snapshot(_Shape):
    parent_object_id: _Text
    creation_timestamp: Annotated[float, Meta(gt=0)]
    creator_id: _Text
    object: JsonObject
    tags: _OptionalTexts = UNSET


_ShapeT = TypeVar("_ShapeT", bound=_Shape)

_SHAPES: Final[dict[CoreType, type[_Shape]]] = {
    CoreType.USER: _User,
    CoreType.ANNOTATION: _Annotation,
    CoreType.TASK: _Task,
    CoreType.IO_NODE: _IoNode,
    CoreType.IO_SOURCE: _IoSource,
    CoreType.IO_ACTOR: _IoPoint,
    CoreType.LOG: _Log,
    CoreType.LOCATION: _Location,
    CoreType.SNAPSHOT: _Snapshot,
}


def require_object(value: object, what: str) -> None:
    """Refuse what is no Coaty object, or lacks what its core type demands."""
    for _ in range(COATY_JSON_DEPTH_MAX):
        core_type, properties = _require_own_shape(value, what)
        if core_type is CoreType.IO_NODE:
            _require_points(properties.get("ioSources", []), CoreType.IO_SOURCE, f"{what}.ioSources")
            _require_points(properties.get("ioActors", []), CoreType.IO_ACTOR, f"{what}.ioActors")
        if core_type is not CoreType.SNAPSHOT:
            return
        value, what = properties["object"], f"{what}.object"
    raise UsageError("snapshots of snapshots are nested too deep", limit=COATY_JSON_DEPTH_MAX)


def require_objects(values: object, what: str) -> None:
    if not isinstance(values, list | tuple):
        raise UsageError(f"{what} is not a list of objects", got=shown(values))
    for position, value in enumerate(values):
        require_object(value, f"{what}[{position}]")


def _require_points(points: list[object], core_type: CoreType, what: str) -> None:
    for position, point in enumerate(points):
        if _require_own_shape(point, f"{what}[{position}]")[0] is not core_type:
            raise UsageError(f"{what}[{position}] is of another core type", need=core_type)


def _require_own_shape(value: object, what: str) -> tuple[CoreType, CoatyObject]:
    """Its core type and itself, if it has the properties it should have; objects within it are not looked at."""
    if not isinstance(value, dict):
        raise UsageError(f"{what} is no object", got=shown(value))
    common = _convert(value, _CoatyObject, what)
    require_uuid(common.object_id, f"{what}.objectId")
    if common.core_type not in CORE_TYPES:
        raise UsageError(f"{what}.coreType is unknown", got=shown(common.core_type))
    core_type = CoreType(common.core_type)
    if core_type in _SHAPES:
        _convert(value, _SHAPES[core_type], f"{what} ({core_type})")
    return core_type, value


def _convert(value: JsonObject, shape: type[_ShapeT], what: str) -> _ShapeT:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise UsageError(f"{what}: {error}") from None
