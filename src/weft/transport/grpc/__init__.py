"""gRPC: links between nodes, and the services for clients and operators.

Peer links (``PeerLinks``) are made of pure pieces and a thin layer of asyncio around them:

- ``peer_messages``, ``member_messages``  what core and membership say, as protobuf and back; all checking is here
- ``election``    which of two connections stays when both nodes dialled
- ``outbox``      what waits to be sent, and what goes when a peer is too slow
- ``settings``
- ``byte_streams``, ``handshake``, ``receiving``, ``link``  one connection
- ``peer_gate``   plain text or TLS, and who is at the other end
- ``links``       all of them: dialling, accepting, closing
- ``watching``    who is told what happens, and what people see; ``tracing``: spans, for who has a tracer

The services for clients are in ``mesh_*``.
"""

from weft.transport.grpc.links import PeerLinks
from weft.transport.grpc.peer_gate import PeerGate, PlainGate, Proof, TlsGate
from weft.transport.grpc.settings import DropPolicy, LinkSettings, channel_options, server_options
from weft.transport.grpc.watching import LinkInput, LinkListener, LinkObserver, LinkView

__all__ = [
    "DropPolicy",
    "LinkInput",
    "LinkListener",
    "LinkObserver",
    "LinkSettings",
    "LinkView",
    "PeerGate",
    "PeerLinks",
    "PlainGate",
    "Proof",
    "TlsGate",
    "channel_options",
    "server_options",
]
