"""EXMP, the Extensible Messaging Protocol: requests and responses over a stream such as TCP or TLS.

Both sides say hello, then either may send requests; each is answered, in order, with a success or a failure. Pings
keep an idle connection honest; ``bye`` or ``error`` ends it. On the stream a message is a length (u32), a type byte,
three unused bytes and a body; bodies of requests and responses are an id (u64) and JSON.

    messages.py     the seven messages as values, their numbers, and BadMessage, the one error of this room
    codec.py        one message to bytes and back
    framing.py      messages on a stream
    json_text.py    JSON within bounds
    application.py  what the JSON says: Operation, Success, Failure
    exchanges.py    which requests are under way, in each direction;  recent_ids.py  which ids a peer has used
    connection.py   all of it as one state machine: bytes and time in, events and bytes out
    events.py       those events;  settings.py  what can be set
    describe.py     captured bytes explained byte by byte;  document.py  the same as JSON, and back

Where the document leaves a choice, this is ours:

- A hello with version 0 is as unsupported as one that is over ours: error 1.
- What arrives in a bad *frame* or at a wrong *time* ends the connection with error 1. An id of zero, or a response that
  no request waits for: error 3. A response to a request that waits, but not for the first one: error 1, because
  requests are answered in order.
- A request ends the connection with error 3 if its id is pending or among the last 65,536 that were answered, with
  error 1 if its body is no JSON, and with error 4 if that is no object with an ``op`` that is a string. It does so in
  its turn: requests before it are answered first, and nothing behind it happens (EXM-06).
- Data that cannot be used does not end the connection. A request with an ``op`` becomes ``InvalidRequestReceived``, to
  be answered in its turn with a failure; JSON that is no response becomes ``InvalidResponseReceived``.
- A pong nobody asked for is ignored, and so is a ping with a body. Silence (no hello, no pong in time) ends with error
  0, the network's.
- Requests are handed out one at a time, the next when the response to the last is sent, or as many at a time as
  ``in_work_max`` allows to an application that keeps to the order itself. Behind them a bounded number waits; when a
  peer sends yet more, reading is held (``is_held``) instead of punishing the peer.
- A length limit holds for reading and for writing. Before the handshake ends it is that of the longest error.
"""

from weft.wire.exmp.application import (
    Failure,
    JsonObject,
    Operation,
    Outcome,
    Success,
    decode_operation_untrusted,
    decode_outcome_untrusted,
    encode_operation,
    encode_outcome,
)
from weft.wire.exmp.codec import decode_untrusted, encode
from weft.wire.exmp.connection import Backlog, Connection, State
from weft.wire.exmp.describe import describe_untrusted
from weft.wire.exmp.document import from_document, to_document_untrusted
from weft.wire.exmp.events import (
    Closed,
    End,
    Event,
    HandshakeDone,
    InvalidRequestReceived,
    InvalidResponseReceived,
    PongReceived,
    RequestReceived,
    ResponseReceived,
)
from weft.wire.exmp.framing import FrameReader, frame, messages_untrusted
from weft.wire.exmp.messages import (
    DEFAULT_PORT,
    DEFAULT_TLS_PORT,
    REQUEST_ID_MAX,
    VERSION,
    BadMessage,
    Bye,
    Error,
    ErrorCode,
    Hello,
    Message,
    MessageType,
    Ping,
    Pong,
    Request,
    Response,
    UnfitData,
)
from weft.wire.exmp.settings import DEFAULT_SETTINGS, Settings

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_SETTINGS",
    "DEFAULT_TLS_PORT",
    "REQUEST_ID_MAX",
    "VERSION",
    "Backlog",
    "BadMessage",
    "Bye",
    "Closed",
    "Connection",
    "End",
    "Error",
    "ErrorCode",
    "Event",
    "Failure",
    "FrameReader",
    "HandshakeDone",
    "Hello",
    "InvalidRequestReceived",
    "InvalidResponseReceived",
    "JsonObject",
    "Message",
    "MessageType",
    "Operation",
    "Outcome",
    "Ping",
    "Pong",
    "PongReceived",
    "Request",
    "RequestReceived",
    "Response",
    "ResponseReceived",
    "Settings",
    "State",
    "Success",
    "UnfitData",
    "decode_operation_untrusted",
    "decode_outcome_untrusted",
    "decode_untrusted",
    "describe_untrusted",
    "encode",
    "encode_operation",
    "encode_outcome",
    "frame",
    "from_document",
    "messages_untrusted",
    "to_document_untrusted",
]
