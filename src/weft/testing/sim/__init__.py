"""A whole mesh in virtual time, with every fault that a seed brings: where the hard promises are proven.

Nodes are the real thing: the machinery of ``weft.node`` with its engine, storage, clients, membership, broker and log,
and the links of ``weft.transport.peers`` with their frames, outboxes and election. Event loop, clocks, disks,
connections and clients are simulated, so that a second costs a millisecond, a power cut costs nothing, and a seed has
one course of events:

>>> world = run(1)
>>> world.schedule.now_s > 10.0 and world.desk.receipts > 0
True

``run`` raises ``Violation`` where the mesh breaks a promise. Read in this order:

- ``schedule``        virtual time, and the trace of what happened
- ``loop``            a node's clock, and an asyncio event loop in virtual time
- ``disk``            a disk, and when it is synced
- ``network``         connections that delay, lose, stall and break; ``calls`` are made on them
- ``node``            one node, put together and watched; ``window`` holds what it has under way against the bound
- ``sessions``, ``publishers``, ``subscribers``, ``group_members``, ``hand_members``, ``plain_peers``: everybody outside
- ``truth``           what really happened, and whether what a node says is true
- ``world``           all of that together, and what has to hold in the end
- ``chaos``           what a seed is made of: the mesh, the clients, the faults
- ``shrinking``       a failing seed, made smaller

``tools/sim.py`` runs many seeds, and replays one with its trace.
"""

from weft.testing.sim.chaos import Mix, draw, run
from weft.testing.sim.schedule import Violation
from weft.testing.sim.world import World

__all__ = ["Mix", "Violation", "World", "draw", "run"]
