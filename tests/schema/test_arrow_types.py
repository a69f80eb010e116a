"""Which type holds the values of two: the table of what is wider, and what files have to be written again for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from weft.schema.arrow_types import is_same_files, sql_name, wider

pytestmark = pytest.mark.req("LAK-02")

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
STRUCT = pa.struct([("x", INT)])
MORE = pa.struct([("x", INT), ("y", TEXT)])
WIDE = pa.struct([("x", LONG), ("y", TEXT)])


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (INT, INT, INT),
        (pa.int8(), LONG, LONG),
        (pa.float32(), pa.float64(), pa.float64()),
        (INT, pa.float64(), None),  # Iceberg knows no such change
        (LONG, pa.float64(), None),
        (INT, TEXT, None),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), None),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), None),
        (pa.date32(), pa.timestamp("us"), None),
        (STRUCT, MORE, MORE),
        (WIDE, STRUCT, WIDE),
        (STRUCT, pa.struct([("X", INT)]), None),
        (STRUCT, pa.struct([("x", TEXT)]), None),
        (
            pa.list_(pa.field("element", STRUCT)),
            pa.list_(pa.field("element", WIDE)),
            pa.list_(pa.field("element", WIDE)),
        ),
        (pa.list_(INT), INT, None),
        (pa.map_(TEXT, INT), pa.map_(TEXT, LONG), pa.map_(TEXT, LONG)),
        (pa.map_(TEXT, INT), pa.map_(TEXT, TEXT), None),
    ],
)
def test_the_wider_of_two(one: pa.DataType, other: pa.DataType, both: pa.DataType | None) -> None:
    assert wider(one, other) == both
    if not pa.types.is_struct(one):  # whose fields keep the order of the first
        assert wider(other, one) == both


def test_files_stay_unless_a_number_widens() -> None:
    assert is_same_files(STRUCT, MORE)
    assert not is_same_files(STRUCT, WIDE)
    assert is_same_files(pa.list_(pa.field("element", STRUCT)), pa.list_(pa.field("element", MORE)))
    assert not is_same_files(pa.map_(TEXT, INT), pa.map_(TEXT, LONG))


def test_types_are_told_as_sql_has_them() -> None:
    assert (
        sql_name(pa.map_(TEXT, pa.list_(pa.field("element", WIDE))))
        == "MAP<STRING, ARRAY<STRUCT<x: BIGINT, y: STRING>>>"
    )
    assert sql_name(pa.decimal128(10, 2)) == "DECIMAL(10,2)"
    assert sql_name(pa.timestamp("us", "UTC")) == "TIMESTAMP"
