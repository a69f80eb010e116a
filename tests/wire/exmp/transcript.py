"""Transcripts: who sends which bytes and what comes of it, written so that a person can follow them.

Bytes are hexadecimal, grouped as one likes; a line in single quotes is ASCII text; what follows a semicolon is comment.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.wire.exmp import DEFAULT_SETTINGS, Connection, Event, HandshakeDone, Settings

HELLO = "00000008 00000000 01 000000"


def octets(text: str) -> bytes:
    data = b""
    for line in text.splitlines():
        line = line.split(" ;")[0].strip()
        data += line[1:-1].encode("ascii") if line.startswith("'") else bytes.fromhex(line)
    return data


class Transcript:
    """Plays the peer of one connection. Every event and every byte has to be named, and in its place."""

    def __init__(self, settings: Settings = DEFAULT_SETTINGS) -> None:
        self.now_s = 0.0
        self.connection = Connection(settings, self.now_s)

    def peer(self, text: str, *events: Event) -> None:
        """The peer sends these bytes, and this is what the application hears."""
        assert self.connection.receive_data(octets(text), self.now_s) == list(events)

    def us(self, text: str) -> None:
        """What we have sent since the last look is exactly this."""
        assert self.connection.data_to_send().hex() == octets(text).hex()

    def eof(self, *events: Event) -> None:
        assert self.connection.receive_eof() == list(events)

    def call(self, call: Callable[[Connection], list[Event]], *events: Event) -> None:
        """Our application calls something."""
        assert call(self.connection) == list(events)

    def until(self, now_s: float, *events: Event) -> None:
        """Time passes; the timer is handled as often as it goes off."""
        heard: list[Event] = []
        while (timer_s := self.connection.get_timer()) is not None and timer_s <= now_s:
            heard += self.connection.handle_timer(timer_s)
            assert self.connection.get_timer() != timer_s, "a timer that was handled moves on"
        self.now_s = now_s
        assert heard == list(events)


def after_handshake(settings: Settings = DEFAULT_SETTINGS) -> Transcript:
    talk = Transcript(settings)
    talk.us(HELLO)
    talk.peer(HELLO, HandshakeDone(version=1))
    return talk


def error(code: int, description: str) -> str:
    """An error message in transcript form."""
    size = len(description)
    return f"{10 + size:08x} 04000000 {code:02x}000000 {size:04x}\n'{description}'"


def request(request_id: int, text: str = '{"op":"a"}') -> str:
    return f"{12 + len(text):08x} 05000000 {request_id:016x}\n'{text}'"


def ours(request_id: int) -> str:
    """Our own request for the operation ``a`` without data: an empty object is sent, as the reference wants it."""
    return request(request_id, '{"op":"a","data":{}}')


def response(request_id: int, text: str = '{"status":"success"}') -> str:
    return f"{12 + len(text):08x} 06000000 {request_id:016x}\n'{text}'"
