"""Any bytes, and any batch with something wrong in it: refused by the one error, or a batch in every respect."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import forge
from tests.model.forge import Head
from tests.model.refusal import GOOD
from tests.model.strategies import COMPRESSIONS, EVENT_LISTS
from weft.model import BadBatch, Batch, Compression, Event

MESSAGE = GOOD[64:]


def check(data: bytes) -> None:
    """Either it is refused, or it is a batch in every respect."""
    try:
        batch = Batch.read_untrusted(data)
    except BadBatch:
        return
    events = list(batch)
    assert len(events) == len(batch)
    assert batch.intact
    again = Batch.from_events(events, producer=batch.producer, sequence=batch.sequence)
    assert list(Batch.read_untrusted(again.data)) == events


@given(st.binary(max_size=300))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    check(data)
    check(forge.reseal(data))
    check(forge.seal(Head(), data))
    check(forge.seal(Head(), MESSAGE[:8] + data))


NUMBERS = st.sampled_from([0, 1, 7, 8, 255, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
SPOILT = st.tuples(
    st.floats(0, 1, exclude_max=True), NUMBERS | st.integers(0, (1 << 64) - 1), st.sampled_from([1, 2, 4, 8])
)


@given(EVENT_LISTS, COMPRESSIONS, st.lists(SPOILT, min_size=1, max_size=4), st.booleans())
@settings(max_examples=200)
def test_any_spoilt_batch_is_a_batch_or_refused(
    events: list[Event], compression: Compression, spoilt: list[tuple[float, int, int]], cut: bool
) -> None:
    data = bytearray(Batch.from_events(events, compression=compression).data)
    for where, number, width in spoilt:
        at = int(where * len(data)) // width * width
        data[at : at + width] = number.to_bytes(8, "little")[:width]
    check(bytes(data))
    check(forge.reseal(bytes(data)))
    check(forge.reseal(bytes(data[: int(spoilt[0][0] * len(data))] if cut else data + b"more")))
