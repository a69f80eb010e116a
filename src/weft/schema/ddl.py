"""Schemas in SQL's words: ``id BIGINT NOT NULL, temp DOUBLE, tags ARRAY<STRING>``, as Spark writes them.

Types may have Arrow's names, too (``int64``, ``utf8``). ``COMMENT '...'`` is read and left out. Hostile text is fine:
it is bounded, and only BadSchema comes out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from weft.schema.values import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    BadSchema,
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
    checked,
)

TYPE_NAMES: Final[dict[str, Scalar]] = {
    "boolean": Scalar.BOOLEAN,
    "bool": Scalar.BOOLEAN,
    "tinyint": Scalar.TINYINT,
    "byte": Scalar.TINYINT,
    "int8": Scalar.TINYINT,
    "smallint": Scalar.SMALLINT,
    "short": Scalar.SMALLINT,
    "int16": Scalar.SMALLINT,
    "int": Scalar.INT,
    "integer": Scalar.INT,
    "int32": Scalar.INT,
    "bigint": Scalar.BIGINT,
    "long": Scalar.BIGINT,
    "int64": Scalar.BIGINT,
    "float": Scalar.FLOAT,
    "real": Scalar.FLOAT,
    "float32": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "float64": Scalar.DOUBLE,
    "string": Scalar.STRING,
    "text": Scalar.STRING,
    "utf8": Scalar.STRING,
    "binary": Scalar.BINARY,
    "date": Scalar.DATE,
    "date32": Scalar.DATE,
    "timestamp": Scalar.TIMESTAMP,
    "timestamp_ltz": Scalar.TIMESTAMP,
    "timestamp_ntz": Scalar.TIMESTAMP_NTZ,
    "json": Scalar.JSON,
    "variant": Scalar.JSON,
}
TOKEN: Final = re.compile(
    r"""\s+ | (?P<name>[^\W\d]\w*) | (?P<quoted>`(?:[^`]|``)+`) | (?P<number>\d{1,9})
      | (?P<text>'(?:[^'\\]|\\.|'')*') | (?P<sign>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
DECIMAL_DEFAULT: Final = (10, 0)  # as in Spark


def parse_ddl(text: str) -> Schema:
    """The schema that ``text`` is, or BadSchema."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise BadSchema("the schema is too long", limit=TEXT_BYTES_MAX)
    parser = _Parser(_tokens(text))
    columns = parser.columns(depth=0, end=None)
    return checked(Schema(Kind.DDL, text, StructOf(columns)))


_Token = tuple[str, str, int]  # what kind, the text of it, where


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise BadSchema(f"unexpected character {text[at]!r}", at=f"character {at + 1}")
        if found.lastgroup is not None:
            tokens.append((found.lastgroup, found.group(), at))
        at = found.end()
    return [*tokens, ("end", "the end", at)]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def columns(self, depth: int, end: str | None) -> tuple[Column, ...]:
        """Columns with commas between them, up to the sign ``end``, which is taken; None: the end of the text."""
        columns = [self._column(depth, inside=end is not None)]
        while self._takes(","):
            columns.append(self._column(depth, inside=end is not None))
        if end is not None:
            self._expect(end)
        elif self._tokens[self._next][0] != "end":
            raise self._unexpected('"," or the end')
        return tuple(columns)

    def _column(self, depth: int, inside: bool) -> Column:
        name = self._name()
        if inside:
            self._takes(":")  # STRUCT<a: INT, b INT>
        kind, checks = self._type(depth)
        strict = False
        while self._tokens[self._next][0] == "name":
            match self._tokens[self._next][1].lower():
                case "not":
                    self._next += 1
                    self._word("null")
                    strict = True
                case "null":
                    self._next += 1
                case "comment":
                    self._next += 1
                    if self._tokens[self._next][0] != "text":
                        raise self._unexpected("a text in single quotes")
                    self._next += 1
                case "default" | "generated" | "check" | "primary" | "references" | "unique" | "collate" as word:
                    raise self._bad(f"{word.upper()} is not checked by Weft, so a schema must not have it")
                case _:
                    raise self._unexpected('"," or the end')
        return Column(name, Shape(kind, nullable=not strict, checks=checks), required=strict)

    def _type(self, depth: int) -> tuple[Type, Checks]:
        if depth >= DEPTH_MAX:
            raise self._bad("types are nested too deep", limit=DEPTH_MAX)
        what, word, _ = self._tokens[self._next]
        if what != "name":
            raise self._unexpected("a type")
        self._next += 1
        match word.lower():
            case "array" | "list":
                return ListOf(self._inner(depth, ">")), Checks()
            case "map":
                return self._map(depth), Checks()
            case "struct" | "record":
                self._expect("<")
                return StructOf(self.columns(depth + 1, ">")), Checks()
            case "decimal" | "dec" | "numeric":
                numbers = self._numbers(2) or list(DECIMAL_DEFAULT)
                return DecimalType(*(numbers if len(numbers) > 1 else [numbers[0], 0])), Checks()
            case "varchar" | "char" | "character":
                length = self._numbers(1)
                return Scalar.STRING, Checks(length_max=length[0]) if length else Checks()
            case name if name in TYPE_NAMES:
                return TYPE_NAMES[name], Checks()
            case _:
                self._next -= 1
                raise self._bad(f'unknown type "{word[:64]}"; there are BIGINT, DOUBLE, STRING, TIMESTAMP and others')

    def _inner(self, depth: int, end: str) -> Shape:
        self._expect("<")
        kind, checks = self._type(depth + 1)
        self._expect(end)
        return Shape(kind, checks=checks)

    def _map(self, depth: int) -> MapOf:
        self._expect("<")
        key, _ = self._type(depth + 1)
        if key is not Scalar.STRING:
            raise self._bad("the keys of a map are STRING: names in JSON are text")
        self._expect(",")
        value, checks = self._type(depth + 1)
        self._expect(">")
        return MapOf(Shape(value, checks=checks))

    def _numbers(self, most: int) -> list[int]:
        if not self._takes("("):
            return []
        numbers = [self._number()]
        while len(numbers) < most and self._takes(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        what, text, _ = self._tokens[self._next]
        if what != "number":
            raise self._unexpected("a number")
        self._next += 1
        return int(text)

    def _name(self) -> str:
        what, text, _ = self._tokens[self._next]
        if what not in ("name", "quoted"):
            raise self._unexpected("the name of a column")
        self._next += 1
        return text if what == "name" else text[1:-1].replace("``", "`")

    def _word(self, word: str) -> None:
        if self._tokens[self._next][1].lower() != word:
            raise self._unexpected(f'"{word.upper()}"')
        self._next += 1

    def _takes(self, sign: str) -> bool:
        if self._tokens[self._next][:2] != ("sign", sign):
            return False
        self._next += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected(f'"{sign}"')

    def _unexpected(self, wanted: str) -> BadSchema:
        return self._bad(f"expected {wanted}, found {self._tokens[self._next][1][:64]!r}")

    def _bad(self, what: str, **facts: object) -> BadSchema:
        return BadSchema(what, at=f"character {self._tokens[self._next][2] + 1}", **facts)


def as_ddl(schema: Schema) -> str:
    """The columns of any schema in SQL's words; checks that SQL's words have no place for are left out."""
    return str(replace(schema, kind=Kind.DDL))
