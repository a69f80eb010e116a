"""HTTP/2 without I/O, both ends, as far as gRPC needs it.

    frames.py      layouts, kinds, error codes; BadHttp2, which ends a connection, and BadStream, which ends a stream
    settings.py    what one side allows the other
    headers.py     header blocks, and what a list of fields must look like
    budget.py      how many frames without messages a peer may send
    window.py      how much it may send on a connection
    stream.py      messages of one stream, in both directions, within windows
    outgoing.py    what is to go out; streams take turns
    incoming.py    what came in, cut into frames; messages take a short way
    connection.py  all of it: bytes in, calls to the owners of streams out, and bytes to send

Calls instead of a list of events, because of speed: half as many messages pass when each becomes an event first
(docs/adr). Messages are gRPC's: a prefix of five bytes, then the content. That is the only thing known here of gRPC.
"""

from weft.wire.http2.connection import Connection, ConnectionOwner, GoneAway
from weft.wire.http2.frames import BadHttp2, BadStream, ErrorCode, code_name
from weft.wire.http2.headers import Headers
from weft.wire.http2.settings import CLIENT_SETTINGS, Http2Settings
from weft.wire.http2.stream import Stream, StreamOwner

__all__ = [
    "CLIENT_SETTINGS",
    "BadHttp2",
    "BadStream",
    "Connection",
    "ConnectionOwner",
    "ErrorCode",
    "GoneAway",
    "Headers",
    "Http2Settings",
    "Stream",
    "StreamOwner",
    "code_name",
]
