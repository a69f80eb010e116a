"""The blocking twin of the client: the same names, plain iterators and context managers, for programs without asyncio.

Every client has a private thread with an event loop, on which the asyncio client runs; calls wait for it. Any number of
threads may use one client. Only one thread at a time may use a subscription.

Each file has the twins of the classes in the file of the same name in ``weft.client``. Methods that only pass on are
written by ``make blocking``; those that iterate, or call functions of the application, are written by hand.
"""

from weft.client.blocking.client import Client, connect
from weft.client.blocking.kv import Bucket, KvWatch
from weft.client.blocking.requests import Request, Server
from weft.client.blocking.schemas import Schemas
from weft.client.blocking.subscription import Subscription

__all__ = ["Bucket", "Client", "KvWatch", "Request", "Schemas", "Server", "Subscription", "connect"]
