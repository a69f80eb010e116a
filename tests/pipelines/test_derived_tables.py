"""What the pipelines of derived tables have in common, and that their page shows configurations that work."""

from __future__ import annotations

import tomllib

import msgspec

from tests.docs.blocks import blocks_for, blocks_of
from weft.pipelines.derived_tables import REJECTED, Rejected, ddl, frame_of, in_micros, rejected_rows
from weft.pipelines.rollup import RollupSettings

PAGE = "docs/derived-tables.md"


def test_the_page_shows_how_an_archive_is_rolled_up() -> None:
    (part,) = blocks_for(PAGE, __file__)
    whole = next(block for block in blocks_of(PAGE) if block.said == "rollup")
    values = tomllib.loads(whole.code) | tomllib.loads(part.code)
    del values["source"]
    assert RollupSettings.model_validate(values).archive is not None


def test_times_travel_as_microseconds() -> None:
    assert in_micros({"a": "string", "b": "timestamp"}) == {"a": "string", "b_us": "bigint"}
    assert ddl({"a": "string", "b_us": "bigint"}) == "`a` string, `b_us` bigint"


def test_a_frame_has_none_where_rows_have_nothing() -> None:
    frame = frame_of([{"a": 1 << 60}, {"b": "x"}], ["a", "b"])
    assert frame.to_dict("records") == [{"a": 1 << 60, "b": None}, {"a": None, "b": "x"}]


def test_rejected_events_travel_as_bytes() -> None:
    rejected = Rejected("t", "n0", 1, 2, 3, None, "why")
    (row,) = rejected_rows([msgspec.msgpack.encode(rejected)])
    assert list(row) == list(in_micros(REJECTED))
    assert row["rejected"] == "why"
