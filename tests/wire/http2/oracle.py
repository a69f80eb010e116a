"""The other end, by the ``h2`` package: somebody else's reading of RFC 9113.

It raises when we break a rule; that is what it is here for. What it sends waits for windows, as ours does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    PingAckReceived,
    RequestReceived,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes, Settings

from tests.wire.http2.support import REQUEST, RESPONSE, TRAILERS, message
from weft.wire.http2.frames import FRAME_HEADER, PREFACE


class Oracle:
    def __init__(self, is_client: bool, first: dict[SettingCodes, int]) -> None:
        self.is_client = is_client
        self.h2 = H2Connection(H2Configuration(client_side=is_client, header_encoding="latin-1"))
        self.h2.local_settings = Settings(client=is_client, initial_values=first)
        self.h2.initiate_connection()
        self.content: defaultdict[int, bytes] = defaultdict(bytes)
        self.heads: defaultdict[int, list[Any]] = defaultdict(list)
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.pongs: list[bytes] = []
        self._is_settled = False
        self.ungranted: Counter[int] = Counter()
        self._unsent: dict[int, bytes] = {}
        self._is_last: set[int] = set()
        self._head = b""  # of the frame that is coming in
        self._left_bytes = 0 if is_client else len(PREFACE)

    # --- in ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Frame by frame: h2 heeds an acknowledged MAX_FRAME_SIZE only at the next call."""
        for piece in self._cut(data):
            for event in self.h2.receive_data(piece):
                self._take(event)

    def _cut(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if not self._left_bytes:  # at the beginning of a frame, whose length comes first
                take = min(FRAME_HEADER.size - len(self._head), len(data) - at)
                self._head += data[at : at + take]
                if len(self._head) == FRAME_HEADER.size:
                    self._left_bytes = FRAME_HEADER.unpack(self._head)[0] >> 8
                    self._head = b""
            else:
                take = min(self._left_bytes, len(data) - at)
                self._left_bytes -= take
            yield data[at : at + take]
            at += take

    def _take(self, event: Any) -> None:
        match event:
            case RequestReceived() | ResponseReceived() | TrailersReceived():
                self.heads[event.stream_id].append([(str(name), str(value)) for name, value in event.headers])
                if isinstance(event, RequestReceived):
                    self.h2.send_headers(event.stream_id, RESPONSE)
                    self._unsent[event.stream_id] = b""
            case DataReceived():
                self.content[event.stream_id] += event.data
                for number in (0, event.stream_id):
                    self.ungranted[number] += event.flow_controlled_length
            case StreamEnded():
                self.ended.add(event.stream_id)
            case StreamReset():
                self.resets[event.stream_id] = int(event.error_code)
                self._unsent.pop(event.stream_id, None)
            case SettingsAcknowledged():
                self._is_settled = True
            case PingAckReceived():
                self.pongs.append(event.ping_data)
            case _:
                pass  # of windows, too: ``sent`` looks at all that waits

    # --- out -----------------------------------------------------------------------------------------------------

    def sent(self) -> bytes:
        for number in list(self._unsent):
            self._send_some(number)
        return bytes(self.h2.data_to_send())

    def _send_some(self, number: int) -> None:
        while True:
            waiting = self._unsent[number]
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(waiting))
            if room <= 0:
                break
            self._unsent[number] = waiting[room:]
            self.h2.send_data(number, waiting[:room])
        if number in self._is_last and not self._unsent[number]:
            del self._unsent[number]
            if self.is_client:
                self.h2.end_stream(number)
            else:
                self.h2.send_headers(number, TRAILERS, end_stream=True)

    def open(self) -> int:
        number: int = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, REQUEST)
        self._unsent[number] = b""
        return number

    def is_sending(self, number: int) -> bool:
        return number in self._unsent and number not in self._is_last

    def send(self, number: int, content: bytes) -> None:
        self._unsent[number] += message(content)

    def end(self, number: int) -> None:
        self._is_last.add(number)

    def reset(self, number: int) -> None:
        """Of no effect if it is over already, or has not come here yet."""
        if self._unsent.pop(number, None) is None and number not in self.heads:
            return
        try:
            self.h2.reset_stream(number, 8)
        except StreamClosedError:
            return
        self.resets.setdefault(number, 8)

    def change(self, name: SettingCodes, value: int) -> None:
        """One at a time: h2 takes the acknowledgement of the first for that of all."""
        if self._is_settled:
            self._is_settled = False
            self.h2.update_settings({name: value})

    def grant(self, size: int) -> None:
        """Give back so many bytes of each window, as far as they were used."""
        for number, used in list(self.ungranted.items()):
            self._increment(number, min(size, max(used, 0)))

    def open_all_windows(self, size: int) -> None:
        for number in (0, *self.content, *self._unsent):
            self._increment(number, size)

    def _increment(self, number: int, size: int) -> None:
        if not size:
            return
        self.ungranted[number] -= size
        try:
            self.h2.increment_flow_control_window(size, number or None)
        except (StreamClosedError, KeyError):  # h2 knows of it no more
            del self.ungranted[number]

    @property
    def open_streams(self) -> int:
        return int(self.h2.open_inbound_streams + self.h2.open_outbound_streams)
