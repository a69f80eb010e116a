"""EXMP for programs: ask others, be asked, or both, over one connection.

    async with exmp.connect("127.0.0.1:5040") as client:
        answer = await client.call("$echo", {"n": 1})

    async def add(data):
        return {"sum": data["a"] + data["b"]}

    async with exmp.serve({"add": add}, port=5040) as server:
        await server.wait_closed()

The protocol has no client and no server, only who dialled: both sides may give handlers and both may ``call``. A
handler is an async function that takes the request's ``data`` (a dict, empty if there is none) and returns the answer's
(a dict or None). To refuse, it raises ``Failure(code, description)``, which is what ``call`` raises on the other side.
Inside a handler, ``current_peer()`` is the peer that asked.

- ``peer``    one connection with its handlers
- ``client``  ``connect``: a connection that is made again when it breaks
- ``server``  ``serve``

docs/exmp.md tells the whole story. A node of Weft speaks this with ``[gateway.exmp]`` in its configuration.
"""

from weft.exmp.client import Client, connect
from weft.exmp.peer import Failure, Handler, Peer, current_peer
from weft.exmp.server import Server, serve
from weft.transport.tcp import BadAnswer, LinkLost, Unreachable, client_context, server_context
from weft.wire.exmp import DEFAULT_PORT, DEFAULT_TLS_PORT, JsonObject, Settings

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_TLS_PORT",
    "BadAnswer",
    "Client",
    "Failure",
    "Handler",
    "JsonObject",
    "LinkLost",
    "Peer",
    "Server",
    "Settings",
    "Unreachable",
    "client_context",
    "connect",
    "current_peer",
    "serve",
    "server_context",
]
