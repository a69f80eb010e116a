"""multistream-select 1.0.0: two sides agree on the protocol to speak on a connection or stream.

A line is ``uvarint(length) text \\n``. The dialler sends the header and its first proposal together; the listener
repeats the header and the proposal it takes, or says ``na`` and waits for another. Both machines take bytes with
``receive_data`` and have theirs fetched with ``data_to_send``, until an outcome is returned; bytes beyond it belong to
the protocol that was agreed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import VarintFrames

MULTISTREAM_LINE_BYTES_MAX: Final = 1024  # protocol names have a few dozen bytes
MULTISTREAM_REFUSALS_MAX: Final = 32  # proposals (and `ls`) answered before the stream is given up
HEADER = "/multistream/1.0.0"
NOT_AVAILABLE = "na"
LIST = "ls"


@dataclass(frozen=True, slots=True)
class Selected:
    """Both sides speak ``protocol`` from here on; ``rest`` are its first bytes, if some came along."""

    protocol: str
    rest: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The listener speaks none of the protocols we proposed."""

    proposals: tuple[str, ...]


def encode_line(text: str) -> bytes:
    body = text.encode() + b"\n"
    if len(body) > MULTISTREAM_LINE_BYTES_MAX or "\n" in text:
        raise UsageError("not a protocol name", have=repr(text[:80]), limit=MULTISTREAM_LINE_BYTES_MAX)
    return varint.prefixed(body)


class _Negotiator:
    def __init__(self) -> None:
        self._frames = VarintFrames()
        self._out = bytearray()
        self._greeted = False
        self._ended = False

    def data_to_send(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def _feed(self, data: bytes) -> None:
        if self._ended:
            raise UsageError("the negotiation has ended: these bytes belong to the protocol that was selected")
        self._frames.feed(data)

    def _next_line_untrusted(self) -> str | None:
        """The next line after the header, which must come first; raise only BadFrame."""
        line = self._read_line_untrusted()
        if line is None or self._greeted:
            return line
        if line != HEADER:
            raise BadFrame("peer does not speak multistream-select 1.0.0", have=repr(line[:80]))
        self._greeted = True
        self._on_header()
        return self._read_line_untrusted()

    def _on_header(self) -> None:
        """The other side has introduced itself."""

    def _read_line_untrusted(self) -> str | None:
        frame = self._frames.next_frame_untrusted(MULTISTREAM_LINE_BYTES_MAX)
        if frame is None:
            return None
        if not frame.endswith(b"\n"):
            raise BadFrame("line does not end with a newline", have=len(frame))
        try:
            return frame[:-1].decode()
        except UnicodeDecodeError as error:
            raise BadFrame("line is not UTF-8", at=error.start) from None

    def _select(self, protocol: str) -> Selected:
        self._ended = True
        return Selected(protocol, self._frames.take_rest())


class Dialler(_Negotiator):
    """Proposes ``protocols`` in order of preference."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        if not protocols:
            raise UsageError("nothing to propose")
        self._proposals = tuple(protocols)
        self._waiting = list(self._proposals)
        self._out += encode_line(HEADER)
        self._propose()

    def receive_data(self, data: bytes) -> Selected | Refused | None:
        """The outcome, or None while more bytes are needed; raise only BadFrame."""
        self._feed(data)
        while (line := self._next_line_untrusted()) is not None:
            if line == self._proposed:
                return self._select(line)
            if line != NOT_AVAILABLE:
                raise BadFrame("answer is neither our proposal nor a refusal", have=repr(line[:80]))
            if not self._waiting:
                self._ended = True
                return Refused(self._proposals)
            self._propose()
        return None

    def _propose(self) -> None:
        self._proposed = self._waiting.pop(0)
        self._out += encode_line(self._proposed)


class Listener(_Negotiator):
    """Takes the first proposal that is among ``protocols``."""

    def __init__(self, protocols: Sequence[str]) -> None:
        super().__init__()
        self._protocols = tuple(protocols)
        self._refusals = 0

    def receive_data(self, data: bytes) -> Selected | None:
        """What was selected, or None while more bytes are needed; raise only BadFrame."""
        self._feed(data)
        while (line := self._next_line_untrusted()) is not None:
            if line in self._protocols:
                self._out += encode_line(line)
                return self._select(line)
            if self._refusals == MULTISTREAM_REFUSALS_MAX:
                raise BadFrame("peer proposes without end", have=repr(line[:80]), limit=MULTISTREAM_REFUSALS_MAX)
            self._refusals += 1  # `ls` counts, too: its answer is longer than the question
            self._out += self._listing() if line == LIST else encode_line(NOT_AVAILABLE)
        return None

    def _on_header(self) -> None:
        self._out += encode_line(HEADER)

    def _listing(self) -> bytes:
        # One line made of lines: uvarint(length) { uvarint(length) name \n }* \n
        return varint.prefixed(b"".join(encode_line(protocol) for protocol in self._protocols) + b"\n")
