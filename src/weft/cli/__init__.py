"""The ``weft`` command.

``main`` puts the commands together. A command ``NAME`` has its options in ``NAME.py`` and its work in ``NAME_work.py``.
The first is light, so that ``weft --help`` is quick; the second needs gRPC, Arrow or RocksDB, and is loaded when the
command runs. Commands with more files than that are packages: ``emm``, ``log``, ``packet``, ``dashboard`` (``weft
top``), ``examination`` (the checks of ``weft doctor``).

- ``connection`` and ``context``: which node, and as whom; ``local_context`` is written by ``weft up``.
- ``options``, ``secret_input``: what commands take.
- ``console``, ``tables``, ``events``, ``progress``: how things are printed.
"""
