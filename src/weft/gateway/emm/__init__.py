"""EMM and EMM-C joined to the mesh: devices' datagrams become events, events become datagrams for devices.

A way in (``inbound``): datagrams of both header formats arrive on one UDP port or over QUIC, wait in ``waiting``, are
judged as ``wire.emm`` and ``wire.emm_compact`` have it (``judge``, ``compact_judge``: in columns, or one by one if they
are few; signatures some at a time and on all cores, ``checkers``), and enter the log as batches per topic
(``accepting``, ``values``, ``topics``, ``batches``). What is refused goes to ``weft.quarantine.emm``, as much of it as
people can look at (``quarantine``).

A way out (``outbound``): events of chosen topics, packed and signed (``packing``), by UDP or over QUIC connections,
some of which the gateway makes itself (``dialled``). Events that came as datagrams carry headers that say so and never
go out again, so there are no loops.

``relations`` answers devices that say Hello, ``compact_node`` is the gateway as an EMM-C node, which sends on what it
takes; ``identity`` is who the node is among them; ``gateway`` ties it all together and follows the trust store.
Everything but ``inbound``, ``outbound``, ``dialled``, ``compact_node``, ``gateway`` and the threads of ``checkers`` is
pure.
"""
