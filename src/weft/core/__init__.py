"""What a node decides: inputs in, effects out. No I/O, no clock; it owns the log, and a runtime does the rest.

>>> from weft.core.messages import Publish, PublishAll, Synced
>>> from weft.log import MemoryStore, open_store
>>> from weft.model import Batch, Epoch, NodeId, Topic
>>> log = open_store(MemoryStore(), lambda: Epoch(1))
>>> broker = Broker(NodeId("a"), log, BrokerSettings(), wall_offset_s=0.0)
>>> told = broker.start(now_s=0.0)
>>> publish = Publish(1, Topic("plant.t"), 0, Batch.from_columns([b"21.5"], 0))
>>> broker.step(PublishAll([publish]), now_s=0.1)
[]
>>> ticket = log.sync()
>>> (receipts,) = broker.step(Synced(ticket, {}), now_s=0.2)
>>> str(receipts.receipts[0].receipt)
'plant.t@a/0:e1:0+1 synced'

Read in this order:

- ``messages``       all inputs and effects
- ``broker``         all of it, as one step function
- ``receipts``       when a publisher gets its receipt
- ``subscriptions``, ``beginnings``   delivery to this node's subscribers, and where they start
- ``routes``         what membership says, as trees and interest
- ``replication``    links: ``outgoing`` and ``incoming`` copies, and ``plain`` peers that know only four messages
- ``past``           what copies lack that begin in the middle, and how it is fetched
- ``groups``, ``group_work``          members that share streams
- ``topics``         topics that belong to the mesh itself
- ``views``          what people get to see of a node's core
"""

from weft.core.broker import Broker
from weft.core.errors import CopiesMissing, TopicReserved
from weft.core.settings import BrokerSettings

__all__ = ["Broker", "BrokerSettings", "CopiesMissing", "TopicReserved"]
