"""TLS between a TCP transport and a protocol, by Python's ``ssl``.

asyncio has its own TLS. But it does not say why a handshake failed, or with whom, and it begins the handshake before we
can say that there are too many connections. This module can do both. It also encrypts large writes in large pieces.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, cast

from weft.errors import PeerError

PLAIN_BYTES: Final = 256 << 10  # decrypted at a time: as much as a transport reads at once
PIECE_BYTES: Final = 128 << 10  # encrypted at a time, so that memory is reused while it is hot
JOIN_BYTES: Final = 64 << 10  # smaller pieces are joined before they are encrypted, because each record costs something
EMPTY_BYTES_MAX: Final = 64 << 10  # of records without content in a row; honest ones are tickets or changes of keys
LINGER_S: Final = 2.0  # for a peer to read why the handshake failed
HTTP2: Final = "h2"

ALERT: Final = re.compile("(?:SSLV3|TLSV1|TLSV13)_ALERT_(.+)")
# What OpenSSL says about a first record that is not TLS.
NOT_TLS: Final = {
    "HTTP_REQUEST": "the peer speaks plain HTTP, not TLS",
    "HTTPS_PROXY_REQUEST": "the peer speaks plain HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS",
    "BAD_RECORD_TYPE": "the peer does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "the peer does not speak TLS",
}

_buffers = threading.local()  # one buffer per thread, because ssl releases the GIL while it decrypts


class TlsFailed(PeerError):
    """The TLS handshake with this peer failed."""


def for_http2(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set a context up for HTTP/2 (RFC 9113, 9.2), and return it.

    Connections do not resume earlier TLS sessions, so each shows its certificate. The exception is TLS 1.2: there a
    session can be resumed with the same context for five minutes, which Python cannot change.
    """
    context.set_alpn_protocols([HTTP2])
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    if context.protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    return context


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """A protocol for the TCP transport below, and a transport for the protocol above.

    ``shaken`` is done when the handshake is done; it has TlsFailed if the handshake failed. In that case ``on_failed``
    is called as well, once the socket is closed.
    """

    def __init__(
        self,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        is_server: bool,
        timeout_s: float,
        on_failed: Callable[[TlsFailed], None] | None = None,
    ) -> None:
        super().__init__()
        self.above = above
        self._loop = asyncio.get_running_loop()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, is_server, server_name)
        self._below: asyncio.Transport | None = None
        self._timeout_s = timeout_s
        self._on_failed = on_failed
        self._is_open = False  # the handshake is done, and the protocol above knows
        self._is_over = False  # nothing more is decrypted or encrypted
        self._is_lost = False
        self._empty_bytes = 0
        self._failure: TlsFailed | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.shaken: asyncio.Future[None] = self._loop.create_future()

    # --- what the transport below calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)  # uvloop's transport is one in all but name
        if self._is_over:  # given up before it began
            self._below.abort()
            return
        self._timer = self._loop.call_later(self._timeout_s, self._late)
        self._shake()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._incoming.write(data)
        self._empty_bytes += len(data)
        if not self._is_open:
            self._shake()
        if self._is_open:
            self._read()

    def eof_received(self) -> bool:
        if self._is_open and not self._is_over:
            self.above.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Calling it again does nothing, as for an endpoint."""
        if self._is_lost:
            return
        self._is_lost = True
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_open:
            self.above.connection_lost(self._failure or exc)
            return
        if self._failure is None:
            self._failure = TlsFailed("the peer hung up during the TLS handshake")
        self._fail_shaken()
        if self._on_failed is not None:
            self._on_failed(self._failure)

    def pause_writing(self) -> None:
        if self._is_open:
            self.above.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self.above.resume_writing()

    # --- the handshake, and what comes after ----------------------------------------------------------------------

    def _shake(self) -> None:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._flush()
        assert self._timer is not None, "since the connection was made"
        self._timer.cancel()
        self._is_open = True
        if not self.shaken.done():
            self.shaken.set_result(None)
        self.above.connection_made(self)

    def _late(self) -> None:
        self._fail(TlsFailed("the TLS handshake took too long", limit_s=self._timeout_s))

    def _read(self) -> None:
        """Read everything decrypted so far, in large pieces: a record has at most 16 KiB."""
        buffer, read = _buffer(), self._ssl.read
        more = True
        while more and not self._is_over:
            size = 0
            is_end = False
            failure: TlsFailed | None = None
            try:
                while size < PLAIN_BYTES and not is_end:
                    got = cast(int, read(PLAIN_BYTES - size, cast(Any, buffer[size:])))
                    size += got
                    is_end = not got
            except ssl.SSLWantReadError:
                more = False
            except ssl.SSLZeroReturnError:  # the peer said goodbye after we did; otherwise ``read`` returns 0
                is_end = True
            except ssl.SSLError as error:
                failure = _reason(error)
            if size:
                self._empty_bytes = 0
                self.above.data_received(bytes(buffer[:size]))
            if failure is not None:
                self._fail(failure)
            elif is_end:
                self._peer_ended()
        if self._empty_bytes > EMPTY_BYTES_MAX:
            self._fail(TlsFailed("the peer sends TLS records without content", limit_bytes=EMPTY_BYTES_MAX))
        if not self._is_over:
            self._flush()  # an answer to a change of keys

    def _peer_ended(self) -> None:
        """The peer said goodbye."""
        if not self._is_over:
            self.above.eof_received()
        self.close()

    def _flush(self) -> None:
        if (data := self._outgoing.read()) and self._below is not None and not self._below.is_closing():
            self._below.write(data)

    def _fail(self, failure: TlsFailed) -> None:
        """Tell the peer by a TLS alert why the connection fails, and give it time to read that."""
        if self._is_over:
            return
        self._failure = failure
        if not self._is_open:
            self._fail_shaken()
        self._hang_up()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(LINGER_S, self.abort)

    def _fail_shaken(self) -> None:
        if not self.shaken.done() and self._failure is not None:
            self.shaken.set_exception(self._failure)
            self.shaken.exception()  # so that asyncio does not warn if nobody awaits it

    def _hang_up(self) -> None:
        self._is_over = True
        with suppress(ssl.SSLError):  # we do not wait for the peer's goodbye
            self._ssl.unwrap()
        self._flush()
        if self._below is not None:
            end_writing(self._below)

    # --- what the protocol above calls ----------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for at in range(0, len(view), PIECE_BYTES):
            if self._is_over:
                return
            try:
                self._ssl.write(view[at : at + PIECE_BYTES])
            except ssl.SSLError as error:
                self._fail(_reason(error))
                return
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        small: list[bytes | bytearray | memoryview] = []
        size = 0
        for piece in list_of_data:
            if len(piece) >= JOIN_BYTES:
                self.write(b"".join(small))
                self.write(piece)
                small, size = [], 0
                continue
            small.append(piece)
            size += len(piece)
            if size >= JOIN_BYTES:
                self.write(b"".join(small))
                small, size = [], 0
        self.write(b"".join(small))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send our goodbye, and read nothing more. The peer can still read what is on its way, and then hangs up."""
        if not self._is_over:
            self._hang_up()

    def close(self) -> None:
        """Send what was written, then our goodbye."""
        self.write_eof()
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        self._is_over = True
        if self._below is not None:
            self._below.abort()

    def pause_reading(self) -> None:
        """Stop reading from the transport below. What has come already is still passed on."""
        if not self.is_closing() and self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_closing() and self._below is not None:
            self._below.resume_reading()

    def is_closing(self) -> bool:
        return self._is_over or self._below is None or self._below.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._ssl
        return default if self._below is None else self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._below is not None, "who is above exists after what is below"
        self._below.set_write_buffer_limits(high, low)


def end_writing(transport: asyncio.Transport) -> None:
    """End our side of a connection, so that the peer reads what is on its way, and then the end."""
    if not transport.is_closing():
        try:
            transport.write_eof()
        except OSError:  # it is gone already
            transport.abort()


def _buffer() -> memoryview:
    """The buffer for decrypting. One per thread is enough, because its content is passed on at once."""
    made: memoryview | None = getattr(_buffers, "made", None)
    if made is None:
        made = _buffers.made = memoryview(bytearray(PLAIN_BYTES))
    return made


def _reason(error: ssl.SSLError) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(f"the peer's certificate is not valid: {error.verify_message}", verify_code=error.verify_code)
    reason = error.reason or ""
    if reason in NOT_TLS:
        return TlsFailed(NOT_TLS[reason])
    if alert := ALERT.fullmatch(reason):
        return TlsFailed(f"the peer refuses TLS with this side: {_words(alert[1])}")
    return TlsFailed(f"TLS failed: {_words(reason or error.strerror or 'no reason given')}")


def _words(name: str) -> str:
    return name.replace("_", " ").lower()
