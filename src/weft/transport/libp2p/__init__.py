"""libp2p connections on asyncio, around the pieces in ``weft.wire.libp2p``: what Coaty agents need, and no more.

- ``connection``: a TCP connection that was upgraded, with its streams. Handlers are called with each message as it
  comes; what is read is dealt with at once, so nothing queues here.
- ``host``: one peer with all its connections: listens, dials, asks each neighbour who it is (identify).
- ``pubsub``: Floodsub on a host. ``mdns``: finding peers on chosen interfaces, and nowhere else.

MPLEX has no flow control of its own: a connection whose application cannot follow is not read from for a while, and a
peer that does not take what is sent to it is hung up on.
"""

from weft.transport.libp2p.connection import Connection, Stream, StreamHandler
from weft.transport.libp2p.host import Host, Neighbour
from weft.transport.libp2p.mdns import Mdns
from weft.transport.libp2p.pubsub import Pubsub

__all__ = ["Connection", "Host", "Mdns", "Neighbour", "Pubsub", "Stream", "StreamHandler"]
