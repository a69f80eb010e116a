"""The trace that an event belongs to: its header ``traceparent``, as defined by W3C Trace Context.

A publisher decides whether its events are traced (the *sampled* flag), and everybody else follows that. Events do not
change on their way, so all spans of an event, wherever they are made, have the publisher's span as their parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.model.batch import Batch
from weft.model.batch_few import SMALL_BYTES_MAX

if TYPE_CHECKING:
    import pyarrow as pa

TRACEPARENT: Final = "traceparent"
MARK: Final = TRACEPARENT.encode()
TRACES_PER_BATCH_MAX: Final = 8  # of one batch that get spans: a span costs 20 to 50 µs
SPAN_ID_MAX: Final = (1 << 64) - 1
SAMPLED: Final = 0x01
# version - trace id - span id - flags; later versions may add more at the end
FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


class SpanRef(NamedTuple):
    """A span of another process, in a trace that is sampled."""

    trace_id: int
    span_id: int

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"


def read_traceparent_untrusted(text: str) -> SpanRef | None:
    """Read the span that a header names; None if it is not valid, or the publisher decided against a trace."""
    found = FORM.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    span = SpanRef(int(found[2], 16), int(found[3], 16))
    return span if int(found[4], 16) & SAMPLED and span.trace_id and span.span_id else None


def sampled_spans(batch: Batch, first_offset: int = 0) -> tuple[SpanRef, ...]:
    """The different spans in which its events, from this offset on, were published; at most TRACES_PER_BATCH_MAX.

    Most batches have none. Small ones are searched by their bytes, others by their column of headers.
    """
    if len(batch.data) <= SMALL_BYTES_MAX and batch.compression is None and MARK not in batch.data:
        return ()
    return _first_spans(_texts(batch, first_offset))


def spans_of_column(headers: pa.MapArray) -> tuple[SpanRef, ...]:
    """Do the same for a column of headers."""
    from weft.model import batch_arrow

    return _first_spans(batch_arrow.header_values(headers, TRACEPARENT))


def _first_spans(texts: Iterable[str]) -> tuple[SpanRef, ...]:
    found: dict[SpanRef, None] = {}
    for text in dict.fromkeys(texts):
        span = read_traceparent_untrusted(text)
        if span is not None:
            found[span] = None
            if len(found) == TRACES_PER_BATCH_MAX:
                break
    return tuple(found)


def span_of(headers: Mapping[str, str] | None) -> SpanRef | None:
    """The span in which one event was published."""
    text = None if headers is None else headers.get(TRACEPARENT)
    return None if text is None else read_traceparent_untrusted(text)


def _texts(batch: Batch, first_offset: int) -> list[str]:
    """The values of that header in these events."""
    if (few := batch.few) is not None:
        headers = few.headers or ()
        rows = headers[max(first_offset - batch.base_offset, 0) :]
        return [each[TRACEPARENT] for each in rows if each and TRACEPARENT in each]
    from weft.model import batch_arrow

    return batch_arrow.header_values(batch.rows(first_offset).column("headers"), TRACEPARENT)
