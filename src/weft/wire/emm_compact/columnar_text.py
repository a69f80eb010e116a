"""The plain-text rule for a whole column of messages at once; ``text`` has the same rule for one message."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.wire.columns import Mask

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

TAB, LINE_FEED, CARRIAGE_RETURN, SPACE, DELETE = 0x09, 0x0A, 0x0D, 0x20, 0x7F
C1_LEAD: Final = 0xC2  # U+0080 to U+009F are the bytes C2 80 to C2 9F
C1_END: Final = 0xA0


def not_text(messages: pa.Array) -> Mask:
    """Which messages are not UTF-8, or hold control characters other than tab, line feed and carriage return.

    ``messages`` is a binary column that begins at offset 0, with nothing behind its nulls.
    """
    assert messages.offset == 0, "the offsets begin with the first row"
    count = len(messages)
    _, offsets_buffer, values = messages.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1)
    data = np.frombuffer(values, np.uint8, offsets[-1]) if offsets[-1] else np.zeros(0, np.uint8)
    # Unsigned bytes wrap around: one comparison finds everything below a space and from DELETE on.
    if not (data - np.uint8(SPACE) >= DELETE - SPACE).any():
        return np.zeros(count, np.bool_)
    return _not_utf8(messages, data, offsets) | _with_control(data, offsets)


def _not_utf8(messages: pa.Array, data: Bytes, offsets: Offsets) -> Mask:
    bad = np.zeros(len(messages), np.bool_)
    try:
        messages.cast(pa.string())
    except pa.ArrowInvalid:
        # Arrow does not tell which one it was: only then are the messages that are not ASCII tried one by one.
        suspects = np.flatnonzero(_rows_with(data >= 0x80, offsets))
        for row, message in zip(suspects, messages.take(pa.array(suspects)).to_pylist(), strict=True):
            bad[row] = _fails_to_decode(message)
    return bad


def _fails_to_decode(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return True
    return False


def _with_control(data: Bytes, offsets: Offsets) -> Mask:
    """Which messages hold a forbidden control character; for one that is not UTF-8 the answer may be either."""
    control = (data < SPACE) & (data != TAB) & (data != LINE_FEED) & (data != CARRIAGE_RETURN)
    control |= data == DELETE
    control[:-1] |= (data[:-1] == C1_LEAD) & (data[1:] < C1_END)
    return _rows_with(control, offsets)


def _rows_with(marks: Mask, offsets: Offsets) -> Mask:
    """Which rows hold a marked byte."""
    rows = np.zeros(len(offsets) - 1, np.bool_)
    rows[np.searchsorted(offsets, np.flatnonzero(marks), side="right") - 1] = True
    return rows
