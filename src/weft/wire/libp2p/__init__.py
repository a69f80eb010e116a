"""The pieces of libp2p that Coaty needs (COA-01, COA-02), without I/O: bytes in, events out.

A TCP connection becomes a libp2p connection in four steps, each a small state machine that is fed with ``receive_data``
and whose ``data_to_send`` goes to the peer; bytes that one step leaves over belong to the next:

1. ``multistream`` agrees on ``/secio/1.0.0``;
2. ``secio.Handshake`` tells who the peer is and gives a ``SecureChannel``, through which everything goes from then on;
3. ``multistream`` agrees on ``/mplex/6.7.0``;
4. ``mplex.Mplex`` carries streams, on each of which ``multistream`` agrees on what is spoken there.

On the streams: ``identify`` (who, where, what), ``floodsub`` (publish and subscribe; ``Router`` decides who gets what),
and Coaty's own liveliness protocol, which is not of this room. ``mdns`` finds peers, ``multiaddr`` says where they
are, ``keys``, ``private_keys`` and ``peer_id`` who they are. ``protobuf``, ``varint``, ``framing`` and ``dns`` are
the formats underneath.

Whatever a peer sends, the only error is ``BadFrame``. Chance and time are arguments.
"""

from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import KeyType, PublicKey
from weft.wire.libp2p.multiaddr import Multiaddr
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey

__all__ = ["BadFrame", "KeyType", "Multiaddr", "PeerId", "PrivateKey", "PublicKey"]
