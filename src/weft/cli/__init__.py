"""The ``weft`` command.

``main`` puts the commands together. Modules that are loaded for ``weft --help`` hold options only (``up``,
``pub_sub``, ``mesh``, ``context``, ``options``), and other groups are loaded when they are used; so is what does the
work, and needs gRPC, Arrow or RocksDB:

- ``serving`` runs a node, ``publishing`` and ``subscribing`` move events, ``views`` shows what nodes tell.
- ``connection`` and ``context``: which node, and as whom; ``local_context`` is written by ``weft up``.
- ``log`` and ``packet``, with their helpers: files and bytes, without a node.
- ``console``, ``tables``, ``events``, ``progress``: how things are printed.
"""
