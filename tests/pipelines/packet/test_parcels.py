"""Parcels give back what was put into them, bit by bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.packets import event, means, notification, rows
from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.parcels import Parcel, separated, unwrap, unwrap_all, wrap
from weft.pipelines.packet.schema import JUDGED


def judged(*datagrams: bytes | None) -> pa.RecordBatch:
    (found,) = judge(rows(list(datagrams)), means())
    return found


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_string(kind):
        return st.sampled_from(["", "a", "b", "über"])
    if pa.types.is_binary(kind):
        return st.sampled_from([b"", b"\0", b"\0\0", b"x"])
    return st.integers(0, 3)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Columns that are all null, all the same, or mixed, as chance has it."""
    count = draw(st.integers(1, 6))
    columns = []
    for field in JUDGED:
        values = st.none() | values_of(field.type)
        same = st.builds(lambda value: [value] * count, values)
        columns.append(pa.array(draw(same | st.lists(values, min_size=count, max_size=count)), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=JUDGED)


def bits(batch: pa.RecordBatch) -> list[list[Any]]:
    """Values by which NaN equals itself and 0.0 is not -0.0."""
    return [
        [struct.pack("<f", value) if isinstance(value, float) else value for value in column.to_pylist()]
        for column in batch.columns
    ]


@settings(max_examples=30)  # of 33 columns each
@given(batches())
def test_what_is_put_in_comes_out(packets: pa.RecordBatch) -> None:
    found = unwrap(wrap(packets))
    assert found.schema == JUDGED
    found.validate(full=True)
    assert bits(found) == bits(packets)


@settings(max_examples=30)
@given(batches(), st.data())
def test_parts_share_what_is_common(packets: pa.RecordBatch, data: st.DataObject) -> None:
    common, others = separated(packets)
    begin = data.draw(st.integers(0, packets.num_rows - 1))
    size = data.draw(st.integers(1, packets.num_rows - begin))
    parcel = Parcel(common.parcel(others.slice(begin, size)))
    assert len(parcel) == size
    assert bits(parcel.packets()) == bits(packets.slice(begin, size))


def test_what_all_have_in_common_is_sent_once() -> None:
    packets = judged(*(event(number) for number in range(1000)))
    assert len(wrap(packets)) < packets.nbytes / 2
    (parcel,) = [Parcel(wrap(packets))]
    assert parcel.column("protocol").to_pylist() == ["emm"] * 1000
    assert parcel.column("priority").null_count == 1000
    assert parcel.packets() == packets


def test_a_column_of_parcels_is_unwrapped() -> None:
    packets = judged(event(1), notification(2), b"junk", None)
    column = pa.record_batch({"packets": pa.array([wrap(packets.slice(0, 1)), wrap(packets.slice(1))], pa.binary())})
    assert pa.Table.from_batches(unwrap_all([column])).equals(pa.Table.from_batches([packets]))
