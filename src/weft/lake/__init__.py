"""Tables as files: where they are, who may reach them, which files they are made of, and events read back from them.
See ``docs/lake.md``.

Without Spark, so that a node reads them too. ``weft.pipelines.lake`` writes tables on top of this room.

Read in this order:

- ``address``, ``access`` and ``store``: where a table is, as whom it is reached, and its files, in a directory or in an
  object store. ``settings`` and ``files``: which table, and what a file of it is called. Pure values.
- ``tables``: what a table is made of now; ``delta``, ``iceberg`` and ``parquet`` know it, each in its own way.
- ``spans``, ``events``: which events a file has, rows as events. ``event_files``, ``index``, ``history``: the events
  of a stream, wherever in the table they are.
- ``helper`` is a process that does that for a node, which talks to it through ``asking``, in ``frames``.
"""
