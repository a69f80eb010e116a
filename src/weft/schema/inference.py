"""A schema from events: the columns that JSON payloads have, so that somebody can look at them and set them.

A field that every event has is required; one that is ever null may be null. Numbers are BIGINT until one has a point,
texts are STRING unless all of them are times or dates. What has different types in different events is JSON, and an
object with very many different names is a map. Fields whose names cannot be columns are left to ``_rescued``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weft.schema.definition import UNREADABLE, Moment
from weft.schema.json_schema import parse_json_schema
from weft.schema.json_writing import json_schema_text
from weft.schema.values import (
    COLUMNS_MAX,
    DEPTH_MAX,
    NAME_CHARS_MAX,
    RESERVED,
    TEXT_BYTES_MAX,
    BadSchema,
    Column,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    Type,
)

MAP_NAMES_MIN: Final = 100  # different names in one object: so many are data, not columns
SEEN_MAX: Final = 50 * COLUMNS_MAX  # fields remembered at once: hostile events end here, with an error


@dataclass(frozen=True, slots=True)
class Inferred:
    schema: Schema  # as JSON Schema
    events: int  # that it was made from
    unread: int  # that are no JSON objects, and were left out


def infer(payloads: Iterable[bytes]) -> Inferred:
    """Infer the schema of these events; BadSchema if none of them is a JSON object."""
    root, budget, unread = _Seen(), [SEEN_MAX], 0
    for payload in payloads:
        try:
            value = msgspec.json.decode(payload)
        except UNREADABLE:
            unread += 1
            continue
        if not isinstance(value, dict):
            unread += 1
            continue
        root.add(value, 0, budget)
    if not root.objects:
        raise BadSchema("no event is a JSON object, so there is nothing to learn", events=unread)
    struct = root.struct()
    if not isinstance(struct, StructOf):
        raise BadSchema("the events have no fields that can be columns", events=root.objects)
    text = json_schema_text(struct)
    if len(text) > TEXT_BYTES_MAX:
        raise BadSchema("the events have more fields than a schema can name", limit=TEXT_BYTES_MAX)
    return Inferred(parse_json_schema(text), root.objects, unread)


@dataclass(slots=True)
class _Seen:
    """What was seen in one place of many events."""

    nulls: int = 0
    types: set[Scalar] = field(default_factory=set)
    objects: int = 0
    fields: dict[str, _Seen] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    lists: int = 0
    items: _Seen | None = None

    def add(self, value: Any, depth: int, budget: list[int]) -> None:
        match value:
            case None:
                self.nulls += 1
            case bool():
                self.types.add(Scalar.BOOLEAN)
            case int():
                self.types.add(_integer_type(value))
            case float():
                self.types.add(Scalar.DOUBLE)
            case str():
                self.types.add(_text_type(value, self.types))
            case _ if depth >= DEPTH_MAX - 1:
                self.types.add(Scalar.JSON)
            case list():
                self.lists += 1
                self.items = self.items or _Seen()
                for item in value:
                    self.items.add(item, depth + 1, budget)
            case _:
                self.objects += 1
                for name, item in value.items():
                    self._at(name, budget).add(item, depth + 1, budget)

    def _at(self, name: str, budget: list[int]) -> _Seen:
        if name not in self.fields:
            budget[0] -= 1
            if budget[0] < 0:
                raise BadSchema("the events have too many different fields", limit=SEEN_MAX)
            self.fields[name] = _Seen()
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.fields[name]

    def shape(self) -> Shape:
        kind = self._type()
        return Shape(kind, nullable=self.nulls > 0 or kind is Scalar.JSON)

    def _type(self) -> Type:
        kinds = (len(self.types) > 0) + (self.objects > 0) + (self.lists > 0)
        if kinds != 1 or Scalar.JSON in self.types:
            return Scalar.JSON
        if self.objects:
            return self.struct()
        if self.items is not None:
            return ListOf(self.items.shape())
        if self.types <= {Scalar.BIGINT, Scalar.DOUBLE}:
            return Scalar.DOUBLE if Scalar.DOUBLE in self.types else Scalar.BIGINT
        if len(self.types) == 1:
            return next(iter(self.types))
        return Scalar.STRING if self.types <= TEXTS else Scalar.JSON

    def struct(self) -> Type:
        if len(self.fields) >= MAP_NAMES_MIN:
            return self._map()
        columns: list[Column] = []
        taken: set[str] = set(RESERVED)
        for name, seen in self.fields.items():
            if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or name.casefold() in taken:
                continue
            taken.add(name.casefold())
            columns.append(Column(name, seen.shape(), required=self.counts[name] == self.objects))
        return StructOf(tuple(columns)) if columns else Scalar.JSON

    def _map(self) -> Type:
        shapes = {seen.shape() for seen in self.fields.values()}
        types = {shape.type for shape in shapes}
        nullable = any(shape.nullable for shape in shapes)
        return MapOf(Shape(types.pop(), nullable)) if len(types) == 1 else Scalar.JSON


TEXTS: Final = {Scalar.STRING, Scalar.DATE, Scalar.TIMESTAMP}


def _integer_type(value: int) -> Scalar:
    if -(1 << 63) <= value < 1 << 63:
        return Scalar.BIGINT
    try:
        float(value)
    except OverflowError:
        return Scalar.JSON
    return Scalar.DOUBLE


def _text_type(text: str, known: set[Scalar]) -> Scalar:
    """What a text is; a place where one text is only text has no times, so none is looked for."""
    if Scalar.STRING in known:
        return Scalar.STRING
    try:
        msgspec.convert(text, Moment).astimezone(datetime.UTC)
    except OverflowError:  # outside of the calendar, there
        return Scalar.STRING
    except msgspec.ValidationError:
        try:
            msgspec.convert(text, datetime.date)
        except msgspec.ValidationError:
            return Scalar.STRING
        return Scalar.DATE
    return Scalar.TIMESTAMP
