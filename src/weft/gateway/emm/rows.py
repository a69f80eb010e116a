"""Judged packets of either header format before they become mesh events, and columns of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.model import Topic
from weft.model.batch_schema import HEADERS_TYPE
from weft.model.traces import TRACEPARENT
from weft.transport.quic import show_any
from weft.wire.reject import OK, REASONS, Reject
from weft.wire.udp import TTL_DEFAULT, Address


class Header(StrEnum):
    """Headers of mesh events that came as datagrams. Consumers read them: append, never rename."""

    PROTOCOL = "emm-protocol"  # emm or emm-c; events with this header never go out as datagrams again
    NODE_ID = "emm-node-id"
    KEY_ID = "emm-key-id"
    MESSAGE_ID = "emm-message-id"
    VERDICT = "emm-verdict"
    SOURCE = "emm-source"
    VALUE = "emm-value"  # what the payload was in the packet: string, integer, float, binary, json, values, datagram
    REASON = "emm-reject"  # in the quarantine: why
    EVENT = "emm-event"  # the event's name, if the topic cannot express it
    TRACE_ID = "emm-trace-id"  # of EMM-C commands
    TRACEPARENT = TRACEPARENT  # the same for the mesh; it also carries a trace that begins here


class Arrived(NamedTuple):
    """A datagram, its source as text, and the marks in its IP header. It is a tuple because there are 100,000 of them a
    second."""

    data: bytes
    source: str
    ttl: int = TTL_DEFAULT
    tos: int = 0


class Rejected(NamedTuple):
    """A refused datagram. It is a tuple for the same reason."""

    data: bytes
    source: str
    reason: Reject


@dataclass(frozen=True, slots=True)
class Accepted:
    """Packets that become events, as columns of equal length. ``codes`` are indexes into ``topics``; a header is null
    if an event lacks it."""

    topics: Sequence[Topic]
    codes: npt.NDArray[np.int32]
    timestamps_us: npt.NDArray[np.int64]
    keys: pa.BinaryArray
    payloads: pa.BinaryArray
    headers: Mapping[Header, pa.StringArray]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of some datagrams. ``waiting``: they are valid, except that a signature still has to be checked.
    ``compact``: the accepted EMM-C packets, to be sent on."""

    accepted: tuple[Accepted, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    waiting: tuple[Arrived, ...] = ()
    compact: tuple[Arrived, ...] = ()


def rejected(arrived: Sequence[Arrived], codes: npt.NDArray[np.int8]) -> tuple[Rejected, ...]:
    """The rows with a code of a judge, and its meaning."""
    rows = np.flatnonzero(codes != OK).tolist()
    return tuple(Rejected(arrived[row].data, arrived[row].source, REASONS[codes[row]]) for row in rows)


# --- columns -----------------------------------------------------------------------------------------------------


def same_text(text: str, count: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(str(text), pa.string()), count)


def headers_column(headers: Mapping[Header, pa.StringArray]) -> pa.MapArray:
    """For each row a map of the headers it has."""
    columns = list(headers.values())
    count, width = len(columns[0]), len(columns)
    present = np.ones((count, width), np.bool_)
    for number, column in enumerate(columns):
        if column.null_count:
            present[:, number] = column.is_valid().to_numpy(zero_copy_only=False)
    places = np.arange(count, dtype=np.int32)[:, None] + np.arange(width, dtype=np.int32) * count
    numbers = np.broadcast_to(np.arange(width, dtype=np.int8), (count, width))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(present.sum(axis=1), out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        pa.array([str(name) for name in headers], pa.utf8()).take(pa.array(numbers[present])),
        pa.concat_arrays(columns).take(pa.array(places[present])),
        HEADERS_TYPE,
    )


GATEWAY_EMM_SOURCES_MAX: Final = 10_000  # senders with valid signatures lately; the oldest go first


new_tuple: Final = tuple.__new__


class Sources:
    """Texts of addresses, and addresses of texts. An address that was silent for long may be forgotten."""

    def __init__(self, sources_max: int = GATEWAY_EMM_SOURCES_MAX) -> None:
        self._sources_max = sources_max
        self._texts: dict[Address, str] = {}
        self._addresses: dict[str, Address] = {}

    def arrived(
        self, contents: Sequence[bytes], sources: Sequence[Address], ttls: Sequence[int], toses: Sequence[int]
    ) -> list[Arrived]:
        known = self._texts
        texts = [known.get(source) or self._text(source) for source in sources]
        # Without the named constructor, which takes three times as long.
        return list(map(new_tuple, repeat(Arrived), zip(contents, texts, ttls, toses, strict=True)))

    def address(self, text: str) -> Address | None:
        return self._addresses.get(text)

    def _text(self, address: Address) -> str:
        if len(self._texts) >= self._sources_max:  # all at once: looking at each would cost more than it saves
            self._texts.clear()
            self._addresses.clear()
        text = self._texts[address] = show_any(address)
        self._addresses[text] = address
        return text
