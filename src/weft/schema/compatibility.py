"""Whether a new version of a schema may follow an old one. Pure.

- **backward**: readers with the new version can read what was written with the old one.
- **forward**: readers with the old version can read what is written with the new one.
- **full**: both. **none**: anything goes.

"Can read" means that an event that keeps the writer's schema keeps the reader's. Fields that a schema does not name are
not considered, unless it is closed: else no field could ever be added to a schema that leaves room for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from weft.schema.values import (
    Checks,
    Column,
    DecimalType,
    Kind,
    ListOf,
    MapOf,
    Scalar,
    Schema,
    Shape,
    StructOf,
    Type,
    joined,
)

# Each type takes what the ones to its left wrote.
INTEGERS: Final = [Scalar.TINYINT, Scalar.SMALLINT, Scalar.INT, Scalar.BIGINT]
FLOATS: Final = [Scalar.FLOAT, Scalar.DOUBLE]


class Compatibility(StrEnum):
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    NONE = "none"


RULES: Final = {
    Compatibility.BACKWARD: "the new schema must read events of the old one",
    Compatibility.FORWARD: "the old schema must read events of the new one",
}


@dataclass(frozen=True, slots=True)
class Break:
    """One reason why a version may not follow: the field, what is wrong with it, and the rule that is broken."""

    field: str
    reason: str
    rule: Compatibility

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.reason} ({self.rule}: {RULES[self.rule]})"


def breaks(old: Schema, new: Schema, rule: Compatibility) -> list[Break]:
    """Why ``new`` may not follow ``old`` under the rule; empty: it may."""
    found: list[Break] = []
    if rule in (Compatibility.BACKWARD, Compatibility.FULL):
        found += _breaks(reader=new, writer=old, rule=Compatibility.BACKWARD)
    if rule in (Compatibility.FORWARD, Compatibility.FULL):
        found += _breaks(reader=old, writer=new, rule=Compatibility.FORWARD)
    return found


def _breaks(reader: Schema, writer: Schema, rule: Compatibility) -> list[Break]:
    by_name = reader.kind is Kind.AVRO
    if by_name != (writer.kind is Kind.AVRO):
        return [Break("", "one version is Avro, the other JSON", rule)]
    found = _Comparison(by_name)
    found.structs(reader.root, writer.root, "")
    return [Break(field, reason, rule) for field, reason in found.breaks]


class _Comparison:
    def __init__(self, by_name: bool) -> None:
        self._by_name = by_name  # Avro: fields that a reader does not have are stepped over, closed or not
        self.breaks: list[tuple[str, str]] = []

    def structs(self, reader: StructOf, writer: StructOf, path: str) -> None:
        written = {column.name: column for column in writer.columns}
        for column in reader.columns:
            where = joined(path, column.name)
            if column.name in written:
                self._columns(column, written.pop(column.name), where)
            elif column.required:
                self._add(where, "is required by the reader, and the writer does not have it")
        if self._by_name or not reader.closed:
            return
        for name in written:
            self._add(joined(path, name), "is not known to the reader, which allows no other fields")
        if not writer.closed:
            self._add(path, "the reader allows no other fields, and the writer does")

    def _columns(self, reader: Column, writer: Column, path: str) -> None:
        if reader.required and not writer.required and not self._by_name:
            self._add(path, "is required by the reader, and may be absent from the writer's events")
        self._shapes(reader.shape, writer.shape, path)

    def _shapes(self, reader: Shape, writer: Shape, path: str) -> None:
        if writer.nullable and not reader.nullable:
            self._add(path, "may be null for the writer, and not for the reader")
        match reader.type, writer.type:
            case StructOf(), StructOf():
                self.structs(reader.type, writer.type, path)
            case ListOf(), ListOf():
                self._lengths(reader.type, writer.type, path)
                self._shapes(reader.type.item, writer.type.item, f"{path}[]")
            case MapOf(value=wanted), MapOf(value=given):
                self._shapes(wanted, given, f"{path}{{}}")
            case wanted, given if takes(wanted, given):
                self._checks(reader.checks, writer.checks, path)
            case wanted, given:
                self._add(path, f"a reader of {wanted} cannot take {given}")

    def _lengths(self, reader: ListOf, writer: ListOf, path: str) -> None:
        if reader.length_min and reader.length_min > (writer.length_min or 0):
            self._add(path, f"the reader wants at least {reader.length_min} items, the writer does not promise them")
        if reader.length_max is not None and (writer.length_max is None or writer.length_max > reader.length_max):
            self._add(path, f"the reader takes {reader.length_max} items at most, the writer has more")

    def _checks(self, reader: Checks, writer: Checks, path: str) -> None:
        if reader.enum is not None and (more := _more(reader.enum, writer)) is not None:
            self._add(path, f"the reader does not take {more}")
        if (low := _low(reader)) is not None and (_low(writer) or (float("-inf"), False)) < low:
            self._add(path, f"the reader takes nothing below {low[0]}, the writer has more")
        if (high := _high(reader)) is not None and (_high(writer) or (float("-inf"), False)) < high:
            self._add(path, f"the reader takes nothing above {-high[0]}, the writer has more")
        if reader.length_min and reader.length_min > (writer.length_min or 0) and writer.enum is None:
            self._add(path, f"the reader wants {reader.length_min} characters at least, the writer has fewer")
        if reader.length_max is not None and _longest(writer) > reader.length_max:
            self._add(path, f"the reader takes {reader.length_max} characters at most, the writer has more")
        if reader.pattern is not None and reader.pattern != writer.pattern:
            self._add(path, "the reader has a pattern that the writer does not have")

    def _add(self, path: str, reason: str) -> None:
        self.breaks.append((path, reason))


def takes(reader: Type, writer: Type) -> bool:
    """Whether every value of the writer's type is one of the reader's: the same, or a wider number."""
    if isinstance(reader, DecimalType) and isinstance(writer, DecimalType):
        whole, given = reader.precision - reader.scale, writer.precision - writer.scale
        return reader.scale >= writer.scale and whole >= given
    if reader == writer:
        return True
    for wider in (INTEGERS, FLOATS):
        if reader in wider and writer in wider:
            return wider.index(writer) < wider.index(reader)
    return writer in INTEGERS and (reader is Scalar.DOUBLE or (reader is Scalar.FLOAT and writer is not Scalar.BIGINT))


def _more(enum: tuple[str | int, ...], writer: Checks) -> str | None:
    """What a writer may say beyond the enum."""
    if writer.enum is None:
        return "every value that the writer does"
    missing = [value for value in writer.enum if value not in enum]
    return ", ".join(map(repr, missing[:5])) if missing else None


def _low(checks: Checks) -> tuple[float, bool] | None:
    """The lower bound; of two the larger is narrower, and the exclusive one of equals."""
    bounds = [(checks.minimum, False), (checks.exclusive_minimum, True)]
    given = [(value, exclusive) for value, exclusive in bounds if value is not None]
    if checks.enum and all(isinstance(value, int) for value in checks.enum):
        given.append((min(int(value) for value in checks.enum), False))
    return max(given, default=None)


def _high(checks: Checks) -> tuple[float, bool] | None:
    """The upper bound, turned over so that larger is narrower."""
    bounds = [(checks.maximum, False), (checks.exclusive_maximum, True)]
    given = [(-value, exclusive) for value, exclusive in bounds if value is not None]
    if checks.enum and all(isinstance(value, int) for value in checks.enum):
        given.append((-max(int(value) for value in checks.enum), False))
    return max(given, default=None)


def _longest(writer: Checks) -> float:
    if writer.enum is not None:
        return max(len(str(value)) for value in writer.enum)
    return float("inf") if writer.length_max is None else writer.length_max
