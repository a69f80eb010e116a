"""A node of the EMM-C mesh, the one with the 8-byte header, as a library.

    async with emm_compact.Node(node_id, Signer(group_key, seed), keys, listen=("10.0.0.5", 7500)) as node:
        await node.join(("10.0.0.6", 7500))
        await node.publish("pump 3 is running dry", priority=Priority.WARNING, urgent=True)
        async for event in node.events():
            print(event.priority, event.text)

- ``session``   a node without its socket: datagrams, time and wishes in; datagrams, events and commands out
- ``neighbours``  the node among others: joins, heartbeats, and what is sent on; shared with the gateway
- ``outbox``    what waits to be sent, and how fast it may leave; ``pulse``: what heartbeats say
- ``settings``, ``event``, ``errors``
- ``node``      asyncio around it

Packets themselves are in ``weft.wire.emm_compact``, whose names needed here are exported here too; what nodes of every
datagram protocol share is in ``weft.datagram_node``. docs/emm-compact.md is for users.
"""

from weft.datagram_node import ChangeKind
from weft.emm_compact.event import About, Command, Event, Figures, Neighbour, NeighbourChange, Refusal
from weft.emm_compact.node import NoAnswer, Node
from weft.emm_compact.session import CompactSession
from weft.emm_compact.settings import Settings
from weft.wire.emm_compact import Format, KeyRing, Priority, Signer
from weft.wire.emm_compact.judge import Epochs

__all__ = [
    "About",
    "ChangeKind",
    "Command",
    "CompactSession",
    "Epochs",
    "Event",
    "Figures",
    "Format",
    "KeyRing",
    "Neighbour",
    "NeighbourChange",
    "NoAnswer",
    "Node",
    "Priority",
    "Refusal",
    "Settings",
    "Signer",
]
