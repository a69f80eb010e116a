"""The two ways through Arrow's metadata, for what pyarrow writes and for everything else."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.refusal import BY_PYARROW
from tests.model.strategies import EVENT_LISTS
from weft.model import BadBatch, Batch, Event, batch_metadata


@given(EVENT_LISTS)
def test_the_short_way_through_metadata_is_the_one_pyarrow_takes(events: list[Event]) -> None:
    """... and finds what the walk finds."""
    message = Batch.from_events(events).data[64:]
    metadata = message[8 : 8 + struct.unpack_from("<i", message, 4)[0]]
    assert batch_metadata.USUAL.unpack(metadata)[::2] == batch_metadata.USUAL_FORM
    assert batch_metadata.read_untrusted(metadata) == batch_metadata.walk_untrusted(metadata)


@given(st.integers(0, 471), st.integers(0, 255))
@settings(max_examples=300)
def test_both_ways_through_metadata_agree_on_spoilt_ones(at: int, value: int) -> None:
    spoilt = bytearray(BY_PYARROW[72 : 72 + 472])
    spoilt[at] = value
    results: list[batch_metadata.Numbers | str] = []
    for way in (batch_metadata.read_untrusted, batch_metadata.walk_untrusted):
        try:
            results.append(way(bytes(spoilt)))
        except BadBatch as error:
            results.append(str(error))
    assert results[0] == results[1]
