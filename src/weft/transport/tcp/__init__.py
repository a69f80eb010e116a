"""EXMP on sockets: TCP and TLS around the connection of ``weft.wire.exmp``, which decides everything.

- ``link``       one connection: reading, timers and writing; its user is a ``LinkUser``. ``dial`` makes a link
- ``listener``   a port that accepts links, and closes them in the end
- ``tls``        TLS contexts for both sides

An ``ExmpConnection`` is driven by callbacks, not by streams and tasks: all requests of one read are handed over
together, and all answers of one turn of the event loop are written together. Nothing in it grows without bound: reading
stops while requests wait for answers, or while the peer does not take its answers.
"""

from weft.transport.tcp.link import (
    Answer,
    BadAnswer,
    ExmpConnection,
    LinkLost,
    LinkUser,
    ReceivedRequest,
    Unreachable,
    dial,
)
from weft.transport.tcp.listener import EXMP_SURPLUS_MAX, Listener
from weft.transport.tcp.tls import client_context, renewing, server_context

__all__ = [
    "EXMP_SURPLUS_MAX",
    "Answer",
    "BadAnswer",
    "ExmpConnection",
    "LinkLost",
    "LinkUser",
    "Listener",
    "ReceivedRequest",
    "Unreachable",
    "client_context",
    "dial",
    "renewing",
    "server_context",
]
