"""HTTP/2 without I/O, both ends, as far as gRPC needs it.

    frames.py      the layout and kinds of frames, and errors: BadHttp2 ends a connection, BadStream ends one stream
    settings.py    what one side allows the other
    headers.py     encoding and decoding header blocks, and checks of the fields in them
    budget.py      how many frames without messages a peer may send
    window.py      how many bytes a peer may send on a connection
    stream.py      the messages of one stream, in both directions, within its windows
    outgoing.py    frames that wait to be sent; streams take turns
    incoming.py    bytes that came in, cut into frames; there is a fast path for messages
    connection.py  puts these together: it takes bytes in, calls the owners of streams, and gives bytes to send

A connection calls the owners of its streams directly. It does not return a list of events, because that would halve the
number of messages a second (docs/adr). Messages are gRPC's: a prefix of five bytes, then the content. Nothing else here
knows about gRPC.
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
