"""EMM and EMM-C joined to the mesh: datagrams of devices become events, and events become datagrams for devices.

The way in (``inbound``): datagrams of both header formats arrive on one UDP port or over QUIC and wait in ``waiting``.
They are judged by ``wire.emm`` and ``wire.emm_compact`` (``judge``, ``compact_judge``: in columns, or one by one if
they are few; signatures some at a time and on all cores, ``checkers``), and enter the log as batches per topic
(``accepting``, ``values``, ``topics``, ``batches``). Refused ones go to ``weft.quarantine.emm``, as many as people can
look at (``quarantine``).

The way out (``outbound``): events of chosen topics, packed and signed (``packing``), by UDP or over QUIC connections,
some of which the gateway makes itself (``dialled``). Headers mark events that came as datagrams; these never go out
again, so there are no loops.

``relations`` answers devices that say Hello, ``compact_node`` is the gateway as an EMM-C node, which sends on what it
accepts; ``identity`` is the node's identity among them; ``gateway`` ties everything together and follows the trust
store. Everything but ``inbound``, ``outbound``, ``dialled``, ``compact_node``, ``gateway`` and the threads of
``checkers`` is pure.
"""
