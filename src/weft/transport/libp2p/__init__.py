"""libp2p connections on asyncio, around the pieces in ``weft.wire.libp2p``; only what Coaty agents need.

- ``connection``: a TCP connection that was upgraded (encryption and streams). Handlers get each message as it comes, so
  nothing queues here.
- ``host``: one peer with all its connections: it listens, dials, and asks each neighbour who it is (identify).
- ``pubsub``: Floodsub on a host. ``mdns``: finding peers on chosen interfaces, and nowhere else.

MPLEX has no flow control. If the application is too slow, we stop reading its connections for a while. If a peer does
not take what we send, it loses its connection.
"""

from weft.transport.libp2p.connection import Connection, Stream, StreamHandler
from weft.transport.libp2p.host import Host, Neighbour
from weft.transport.libp2p.mdns import Mdns
from weft.transport.libp2p.pubsub import Pubsub

__all__ = ["Connection", "Host", "Mdns", "Neighbour", "Pubsub", "Stream", "StreamHandler"]
