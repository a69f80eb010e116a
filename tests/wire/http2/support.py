"""What the tests of this room share: both ends with owners that note what they hear, frames, and a counter of calls.

Frames that we wrote are read by ``hyperframe`` and header blocks by ``hpack``, so that nobody checks his own work.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from hpack import Decoder, Encoder
from hyperframe.frame import Frame

from weft.wire.http2 import CLIENT_SETTINGS, BadHttp2, Connection, GoneAway, Headers, Http2Settings, Stream
from weft.wire.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTING, SETTINGS, frame

SERVER: Final = Http2Settings()
REQUEST: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/test.Service/Method"),
    (":authority", "test"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)
RESPONSE: Final = ((":status", "200"), ("content-type", "application/grpc"))
TRAILERS: Final = (("grpc-status", "0"),)
SETTINGS_FRAME: Final = frame(SETTINGS, 0, 0)
PROLOGUE: Final = PREFACE + SETTINGS_FRAME  # what a client says first


# --- frames -----------------------------------------------------------------------------------------------------------


def block(*fields: tuple[str, str]) -> bytes:
    """Fields as a header block of which no table knows."""
    encoded: bytes = Encoder().encode([(name, value, True) for name, value in fields], huffman=False)
    return encoded


def headers_frame(stream: int, fields: Iterable[tuple[str, str]], *, ends: bool = False) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block(*fields))


def message(content: bytes) -> bytes:
    return struct.pack(">BI", 0, len(content)) + content


def data_frame(stream: int, content: bytes, *, ends: bool = False) -> bytes:
    return frame(DATA, END_STREAM if ends else 0, stream, content)


def settings_frame(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*each) for each in values))


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def read_frames(data: bytes) -> list[Any]:
    """What we wrote, as hyperframe sees it."""
    frames = []
    data = data.removeprefix(PREFACE)
    while data:
        read, size = Frame.parse_frame_header(memoryview(data[:9]))
        assert len(data) >= 9 + size, "a frame was cut off"
        read.parse_body(memoryview(data[9 : 9 + size]))
        frames.append(read)
        data = data[9 + size :]
    return frames


def named(frames: list[Any], name: str) -> list[Any]:
    return [each for each in frames if type(each).__name__ == name]


# --- both ends --------------------------------------------------------------------------------------------------------


class Heard:
    """Owns a stream and notes what it hears. ``react`` may do something about it, then and there."""

    def __init__(self, react: Callable[[Heard, str], None] | None = None) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.stream: Stream
        self._react = react

    def _note(self, *event: Any) -> None:
        assert not self.events or self.events[-1][0] != "reset", "that was to be the last call"
        self.events.append(event)
        if self._react is not None:
            self._react(self, event[0])

    def on_headers(self, headers: Headers, ended: bool) -> None:
        self._note("headers", tuple(headers), ended)

    def on_message(self, message: bytes) -> None:
        self._note("message", message)

    def on_end(self) -> None:
        self._note("end")

    def on_reset(self, code: int, reason: str) -> None:
        self._note("reset", code, reason)

    def on_refused(self, compressed: bool, size: int) -> None:
        self._note("refused", compressed, size)

    def on_crowded(self, size: int) -> None:
        self._note("crowded", size)

    def on_room(self) -> None:
        self._note("room")

    @property
    def messages(self) -> list[bytes]:
        return [event[1] for event in self.events if event[0] == "message"]

    @property
    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]

    @property
    def was_reset(self) -> int | None:
        return self.events[-1][1] if self.events and self.events[-1][0] == "reset" else None


class End:
    """A connection and its owner."""

    def __init__(
        self,
        is_client: bool,
        settings: Http2Settings | None = None,
        react: Callable[[Heard, str], None] | None = None,
        is_welcome: bool = True,
    ) -> None:
        self.heard: dict[int, Heard] = {}
        self.pongs: list[bytes] = []
        self.gone: list[GoneAway] = []
        self.settled = 0
        self.now_s = 0.0
        self._react = react
        self._is_welcome = is_welcome
        default = CLIENT_SETTINGS if is_client else SERVER
        self.http2 = Connection(self, is_client, settings or default, 0.0)

    # --- what the connection says ---------------------------------------------------------------------------------

    def on_stream(self, stream: Stream) -> Heard:
        heard = self._own(stream)
        if self._is_welcome:
            stream.widen()
        return heard

    def _own(self, stream: Stream) -> Heard:
        heard = self.heard[stream.id] = Heard(self._react)
        heard.stream = stream
        return heard

    def on_settings(self) -> None:
        self.settled += 1

    def on_pong(self, payload: bytes) -> None:
        self.pongs.append(payload)

    def on_gone_away(self, gone: GoneAway) -> None:
        self.gone.append(gone)

    # --- what tests do --------------------------------------------------------------------------------------------

    def open(self, headers: Headers = REQUEST) -> Heard:
        heard = Heard(self._react)
        heard.stream = self.http2.open_stream(heard, headers)
        self.heard[heard.stream.id] = heard
        return heard

    def receive(self, data: bytes) -> None:
        self.http2.receive_data(data, self.now_s)

    def sent(self) -> bytes:
        """All that is to go out by now."""
        whole = b""
        while pieces := self.http2.data_to_send():
            whole += b"".join(pieces)
        return whole

    def frames(self) -> list[Any]:
        return read_frames(self.sent())


def a_server(settings: Http2Settings | None = None, **more: Any) -> End:
    """One that has heard the prologue, and has nothing to send."""
    end = End(False, settings, **more)
    end.receive(PROLOGUE)
    end.sent()
    return end


def a_client(settings: Http2Settings | None = None, **more: Any) -> End:
    end = End(True, settings, **more)
    end.receive(SETTINGS_FRAME)
    end.sent()
    return end


def talk(client: End, server: End) -> None:
    """Carry bytes to and fro until neither has any."""
    for _ in range(10_000):
        there, back = client.sent(), server.sent()
        if not there and not back:
            return
        server.receive(there)
        client.receive(back)
    raise AssertionError("they never come to an end")


def pair(settings: Http2Settings | None = None, client_settings: Http2Settings | None = None) -> tuple[End, End]:
    client, server = End(True, client_settings), End(False, settings)
    talk(client, server)
    return client, server


def small_windows(window_bytes: int, settings: Http2Settings) -> Http2Settings:
    return replace(settings, first_window_bytes=window_bytes, stream_window_bytes=window_bytes)


def decoded(frames: list[Any]) -> list[tuple[str, str]]:
    """The fields of the first HEADERS among frames, as hpack reads them. Only for a connection's first block."""
    return [(str(name), str(value)) for name, value in Decoder().decode(named(frames, "HeadersFrame")[0].data)]


# --- counted work -----------------------------------------------------------------------------------------------------


class Calls:
    count = 0
    by_name: dict[str, int]


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """How many functions are called meanwhile: work that a busy machine does not change."""
    calls = Calls()
    calls.by_name = {}

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            calls.count += 1
            name = frame.f_code.co_name
            calls.by_name[name] = calls.by_name.get(name, 0) + 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def passed(end: End, frames: Iterable[bytes], limit: int = 200_000) -> tuple[int, BadHttp2 | None]:
    """How many of these pass before the connection ends, and why it did. Answers are read, as an attacker may."""
    for count, each in enumerate(frames):
        if count == limit:
            return count, None
        try:
            end.receive(each)
        except BadHttp2 as error:
            return count, error
        end.sent()
    raise AssertionError("there were too few frames")
