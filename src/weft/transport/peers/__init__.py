"""Links between nodes, made of pure pieces and a thin layer of asyncio around them:

- ``messages``, ``member_messages``  what core and membership say, as protobuf and back; all checking is here
- ``election``    which of two connections stays when both nodes dialled
- ``outbox``      what waits to be sent, and what goes when a peer is too slow
- ``settings``
- ``byte_streams``, ``receiving``, ``link``  one connection
- ``gate``        plain text or TLS, and which node is at the other end
- ``introducing``, ``lives``  hellos, what they say of lives, and how two nodes with one id are found
- ``signed_states``  what nodes say of themselves, signed and checked
- ``links``       all links: dialling, accepting, closing
- ``watching``    listeners that are told what happens to links, and the figures that people see
"""

from weft.transport.peers.gate import PeerGate, PlainGate, Proof, TlsGate
from weft.transport.peers.links import PeerLinks
from weft.transport.peers.settings import DropPolicy, LinkSettings
from weft.transport.peers.watching import LinkInput, LinkListener, LinkObserver, LinkView

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
]
