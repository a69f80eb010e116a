"""A few events as an Arrow message without pyarrow: byte for byte what pyarrow writes, in a thirtieth of its time.

pyarrow takes about 100 µs to make a message and 50 µs to check one, however little is in it. That would be most of the
cost of an event that is published alone. Our schema is fixed, so for a few events the message is laid out here by hand.
Reading takes the events out and lays them out again: a message equal to what we would write is a valid one. pyarrow
checks all others, because other writers pad differently.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from weft.limits import (
    EVENT_HEADER_NAME_BYTES_MAX,
    EVENT_HEADER_VALUE_BYTES_MAX,
    EVENT_HEADERS_MAX,
    EVENT_KEY_BYTES_MAX,
    KIB,
)
from weft.model.batch_metadata import BUFFERS, I64, NODES, USUAL, USUAL_FORM

FEW_MAX: Final = 64  # events; for more, pyarrow is as fast
SMALL_BYTES_MAX: Final = 64 * KIB  # of a message that is read by copying it; larger ones are left to pyarrow, too
PREFIX: Final = struct.Struct("<Ii").pack(0xFFFFFFFF, USUAL.size)
BODY_AT: Final = len(PREFIX) + USUAL.size
NODES_AT: Final = BODY_AT - NODES.size
BUFFERS_AT: Final = NODES_AT - len(USUAL_FORM[3]) - BUFFERS.size
OFFSET_BYTES: Final = 4
PADDINGS: Final = tuple(bytes(size) for size in range(8))
HEADS_KEPT: Final = 64  # for each number of events, 450 bytes each: events of one topic often have the same few sizes
BYTES: Final = {bytes}
INTEGERS: Final = {int}

Headers = Mapping[str, str]


class Few(NamedTuple):
    """The columns of a few events. None: no event has a value in this column."""

    payloads: Sequence[bytes]
    timestamps_us: Sequence[int]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Headers | None] | None

    @property
    def time_range(self) -> tuple[int, int]:
        """The smallest and the greatest timestamp."""
        if len(self.timestamps_us) == 1:
            return self.timestamps_us[0], self.timestamps_us[0]
        return min(self.timestamps_us), max(self.timestamps_us)

    @property
    def is_bare(self) -> bool:
        """Whether there are neither keys nor headers. If such events were read from a message, they have the right
        types, and the length of the message bounds their size."""
        return self.keys is None and self.headers is None

    @property
    def is_usual(self) -> bool:
        """Whether it has the right types and is within all bounds. If not, the code that knows each bound says what is
        wrong."""
        return (
            1 <= len(self.payloads) <= FEW_MAX
            and set(map(type, self.payloads)) == BYTES
            and set(map(type, self.timestamps_us)) == INTEGERS
            and sum(map(len, self.payloads)) <= SMALL_BYTES_MAX
            and (self.keys is None or all(map(_is_usual_key, self.keys)))
            and (self.headers is None or all(map(_are_usual_headers, self.headers)))
        )


def few_of(
    payloads: Sequence[bytes],
    timestamps_us: Sequence[int] | int,
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Headers | None] | None,
) -> Few | None:
    """The events of these columns, if they are few and small and nothing is wrong with them."""
    count = len(payloads)
    if count > FEW_MAX:
        return None
    times_us = [timestamps_us] * count if isinstance(timestamps_us, int) else timestamps_us
    if keys is not None and keys.count(None) == count:
        keys = None
    if headers is not None and headers.count(None) == count:
        headers = None
    few = Few(payloads, times_us, keys, headers)
    lengths = {count, len(times_us), count if keys is None else len(keys), count if headers is None else len(headers)}
    return few if len(lengths) == 1 and few.is_usual else None


def _is_usual_key(key: bytes | None) -> bool:
    return key is None or (type(key) is bytes and len(key) <= EVENT_KEY_BYTES_MAX)


def _are_usual_headers(headers: Headers | None) -> bool:
    if headers is None:
        return True
    return (
        type(headers) is dict
        and len(headers) <= EVENT_HEADERS_MAX
        and all(type(each) is str and each.isascii() for pair in headers.items() for each in pair)
        and all(len(name) <= EVENT_HEADER_NAME_BYTES_MAX for name in headers)
        and all(len(value) <= EVENT_HEADER_VALUE_BYTES_MAX for value in headers.values())
    )


def write(few: Few) -> bytes:
    """Make the message of 1 to FEW_MAX events. The caller checks types and bounds."""
    if few.keys is None and few.headers is None:
        return _bare(len(few.payloads)).write(few.payloads, few.timestamps_us)
    return _write(few)


def write_bare(payloads: Sequence[bytes], timestamps_us: Sequence[int]) -> bytes:
    """Do the same for events without keys and headers."""
    return _bare(len(payloads)).write(payloads, timestamps_us)


def read_untrusted(message: bytes, count: int) -> Few | None:
    """Read the events of a message, if it is exactly what ``write`` makes of them; otherwise None."""
    if not 1 <= count <= FEW_MAX or not BODY_AT <= len(message) <= SMALL_BYTES_MAX:
        return None
    try:
        few = _bare(count).read_untrusted(message)
        if few is None:
            few = _read(message, count, NODES.unpack_from(message, NODES_AT))
            return few if _write(few) == message else None
        return few
    except (struct.error, UnicodeDecodeError, OverflowError):
        return None


# --- events without keys and headers ---------------------------------------------------------------------------------


class _Bare:
    """Messages of a given number of events without keys and headers. They differ only in times and payloads."""

    __slots__ = ("_data_at", "_head", "_layout", "_middle", "_offsets", "_outer", "_times")

    def __init__(self, count: int) -> None:
        empty = _write(Few([b""] * count, [0] * count, None, None))
        self._times = struct.Struct(f"<{count}q")
        self._offsets = struct.Struct(f"<{count + 1}i{_padding(OFFSET_BYTES * (count + 1))}x")
        self._data_at = len(empty)
        offsets_at = len(empty) - self._offsets.size
        self._middle = empty[BODY_AT + self._times.size : offsets_at]  # between times and offsets
        sizes = BODY_AT, self._times.size, len(self._middle), self._offsets.size
        self._layout = struct.Struct("".join(f"{size}s" for size in sizes))  # all before the payloads
        body_bytes_at = len(PREFIX) + len(USUAL_FORM[0])
        data_bytes_at = BUFFERS_AT + BUFFERS.size - I64.size
        self._outer = (  # around the two sizes in the head
            empty[:body_bytes_at],
            empty[body_bytes_at + I64.size : data_bytes_at],
            empty[data_bytes_at + I64.size : BODY_AT],
        )
        self._head = lru_cache(HEADS_KEPT)(self._make_head)

    def write(self, payloads: Sequence[bytes], times_us: Sequence[int]) -> bytes:
        data = b"".join(payloads)
        size = len(data)
        times, offsets = self._times.pack(*times_us), self._offsets.pack(*_starts(payloads))
        return b"".join((self._head(size), times, self._middle, offsets, data, PADDINGS[-size & 7]))

    def _make_head(self, size: int) -> bytes:
        """Everything before the times. It depends only on the number of events and the size of the payloads."""
        first, second, third = self._outer
        body_bytes = self._data_at - BODY_AT + size + (-size & 7)
        return b"".join((first, I64.pack(body_bytes), second, I64.pack(size), third))

    def read_untrusted(self, message: bytes) -> Few | None:
        """None if ``write`` would write these events in any other way."""
        if len(message) < self._data_at:
            return None
        head, times, middle, offsets = self._layout.unpack_from(message)
        if middle != self._middle:
            return None  # mostly it has keys or headers
        starts = self._offsets.unpack(offsets)
        size = starts[-1]
        end = self._data_at + size
        padding = PADDINGS[-size & 7]
        if starts[0] or size < 0 or len(message) != end + len(padding) or not message.endswith(padding):
            return None
        if head != self._head(size) or list(starts) != sorted(starts):
            return None
        if offsets != self._offsets.pack(*starts):
            return None  # their padding is not zero
        return Few(_pieces(message[self._data_at : end], starts), self._times.unpack(times), None, None)


_bare = lru_cache(FEW_MAX)(_Bare)


# --- events of any kind ----------------------------------------------------------------------------------------------


def _write(few: Few) -> bytes:
    count = len(few.payloads)
    none = bytes(OFFSET_BYTES * (count + 1))
    keys, headers = few.keys, few.headers
    buffers: list[bytes] = [b"", struct.pack(f"<{count}q", *few.timestamps_us)]
    if keys is None:
        key_nulls = count
        buffers += (_bits([False] * count), none, b"")
    else:
        key_nulls = keys.count(None)
        present = [key or b"" for key in keys]
        buffers += (
            _bits([key is not None for key in keys]) if key_nulls else b"",
            _offsets(present),
            b"".join(present),
        )
    if headers is None:
        entries, header_nulls = 0, count
        buffers += (_bits([False] * count), none, b"", b"", none, b"", b"", none, b"")
    else:
        header_nulls = headers.count(None)
        names = [name.encode() for some in headers if some for name in some]
        values = [value.encode() for some in headers if some for value in some.values()]
        entries = len(names)
        given = _bits([some is not None for some in headers]) if header_nulls else b""
        buffers += (
            given,
            _counts(headers),
            b"",
            b"",
            _offsets(names),
            b"".join(names),
            b"",
            _offsets(values),
            b"".join(values),
        )
    buffers += (b"", _offsets(few.payloads), b"".join(few.payloads))
    nodes = (count, 0, count, key_nulls, count, header_nulls, entries, 0, entries, 0, entries, 0, count, 0)
    return _message(count, buffers, nodes)


def _message(count: int, buffers: Sequence[bytes], nodes: Sequence[int]) -> bytes:
    places: list[int] = []
    parts: list[bytes] = []
    at = 0
    for buffer in buffers:
        places += (at, len(buffer))
        padding = _padding(len(buffer))
        parts += (buffer, b"\0" * padding)
        at += len(buffer) + padding
    first, second, third, fourth = USUAL_FORM
    numbers = BUFFERS.pack(*places), NODES.pack(*nodes)
    metadata = USUAL.pack(first, at, second, count, third, numbers[0], fourth, numbers[1])
    return b"".join((PREFIX, metadata, *parts))


def _read(message: bytes, count: int, nodes: Sequence[int]) -> Few:
    """Read what a message seems to hold. If it is wrong, writing it again shows that."""
    places = BUFFERS.unpack_from(message, BUFFERS_AT)
    buffers = [
        message[BODY_AT + place : BODY_AT + place + size] if place >= 0 <= size else b""
        for place, size in zip(places[::2], places[1::2], strict=True)
    ]
    times_us = struct.unpack_from(f"<{count}q", buffers[1])
    payloads = _pieces_untrusted(buffers[16], _numbers(buffers[15], count + 1))
    keys: list[bytes | None] | None = None
    if nodes[3] != count:
        given = _given(buffers[2], count)
        pieces = _pieces_untrusted(buffers[4], _numbers(buffers[3], count + 1))
        keys = [piece if has else None for has, piece in zip(given, pieces, strict=True)]
    headers: list[Headers | None] | None = None
    if nodes[5] != count:
        starts = _numbers(buffers[6], count + 1)
        _check_ascending(starts)
        names = _texts(buffers[9], buffers[10])
        values = _texts(buffers[12], buffers[13])
        headers = [
            dict(zip(names[start:end], values[start:end], strict=False)) if has else None
            for has, (start, end) in zip(_given(buffers[5], count), pairwise(starts), strict=True)
        ]
    return Few(payloads, times_us, keys, headers)


# --- buffers ---------------------------------------------------------------------------------------------------------


def _padding(size: int) -> int:
    return -size & 7


def _starts(pieces: Sequence[bytes]) -> list[int]:
    """Where each piece begins, and where the last one ends."""
    return list(accumulate(map(len, pieces), initial=0))


def _offsets(pieces: Sequence[bytes]) -> bytes:
    return struct.pack(f"<{len(pieces) + 1}i", *_starts(pieces))


def _counts(headers: Sequence[Headers | None]) -> bytes:
    starts, at = [0], 0
    for some in headers:
        at += len(some) if some else 0
        starts.append(at)
    return struct.pack(f"<{len(starts)}i", *starts)


def _bits(flags: Sequence[bool]) -> bytes:
    """One bit each, the first one lowest."""
    number = sum(1 << place for place, flag in enumerate(flags) if flag)
    return number.to_bytes((len(flags) + 7) // 8, "little")


def _given(bits: bytes, count: int) -> list[bool]:
    """Read the bits; without any, every value is given."""
    number = int.from_bytes(bits, "little") if bits else -1
    return [bool(number >> place & 1) for place in range(count)]


def _numbers(buffer: bytes, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}i", buffer)


def _pieces(data: bytes, starts: Sequence[int]) -> list[bytes]:
    return list(map(data.__getitem__, map(slice, starts, starts[1:])))


def _pieces_untrusted(data: bytes, starts: Sequence[int]) -> list[bytes]:
    _check_ascending(starts)
    return _pieces(data, starts)


def _check_ascending(starts: Sequence[int]) -> None:
    """Raise struct.error if pieces would overlap: together they could take a thousand times as much as the message."""
    if starts[0] or list(starts) != sorted(starts):
        raise struct.error("pieces overlap")


def _texts(offsets: bytes, data: bytes) -> list[str]:
    starts = _numbers(offsets, len(offsets) // OFFSET_BYTES)
    return [piece.decode() for piece in _pieces_untrusted(data, starts)] if starts else []
