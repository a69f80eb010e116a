"""Which traces the events of a batch belong to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model import Batch
from weft.model.traces import (
    TRACEPARENT,
    TRACES_PER_BATCH_MAX,
    SpanRef,
    read_traceparent_untrusted,
    sampled_spans,
    span_of,
    spans_of_column,
)

SPAN = SpanRef(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
# From the examples of W3C Trace Context, and what its rules refuse.
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LATER = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like"
BAD = [
    "",
    "00",
    GOOD[:-1],
    GOOD.upper(),
    GOOD + "-more",
    GOOD[:-2] + "00",  # not sampled
    "ff" + GOOD[2:],
    "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
    " " + GOOD,
    GOOD + "\n",
    GOOD.replace("4", "٤"),
]


def test_a_sampled_span_is_read_and_written() -> None:
    assert read_traceparent_untrusted(GOOD) == SPAN
    assert read_traceparent_untrusted(LATER) == SPAN
    assert SPAN.traceparent == GOOD


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_sampled_span_is_none(text: str) -> None:
    assert read_traceparent_untrusted(text) is None


@given(st.text())
def test_any_text_is_a_span_or_none(text: str) -> None:
    span = read_traceparent_untrusted(text)
    assert span is None or (span.trace_id and span.span_id)


def batch_of(headers: list[Mapping[str, str] | None], payload: bytes = b"x", offset: int = 0) -> Batch:
    return Batch.from_columns([payload] * len(headers), 1, None, headers).with_base_offset(offset)


@given(
    st.lists(st.sampled_from([None, 0, 1, 2, 30]), min_size=1, max_size=200),
    st.integers(0, 250),
    st.sampled_from([None, "zstd"]),
)
def test_spans_of_a_batch_are_those_of_its_events(marks: list[int | None], first: int, codec: None) -> None:
    """Whether the batch is small, large or compressed, and from whichever offset."""
    headers: list[Mapping[str, str] | None] = [
        None if mark is None else {"other": "h", TRACEPARENT: SpanRef(mark + 1, 7).traceparent} for mark in marks
    ]
    batch = Batch.from_columns([b"x"] * len(marks), 1, None, headers, compression=codec).with_base_offset(100)
    expected = dict.fromkeys(span for each in headers[max(first - 100, 0) :] if (span := span_of(each)) is not None)
    assert sampled_spans(batch, first) == tuple(expected)
    assert spans_of_column(batch.rows(first).column("headers")) == tuple(expected)


def test_a_batch_is_looked_at_for_a_few_traces_only() -> None:
    batch = batch_of([{TRACEPARENT: SpanRef(number + 1, 7).traceparent} for number in range(1000)])
    assert sampled_spans(batch) == tuple(SpanRef(number + 1, 7) for number in range(TRACES_PER_BATCH_MAX))


def test_a_payload_that_looks_like_a_trace_is_none() -> None:
    assert sampled_spans(batch_of([{"other": "h"}] * 3, f"traceparent {GOOD}".encode())) == ()
