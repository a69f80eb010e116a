"""Tables as files: where they are, who may reach them, which files they are made of, and events read back from them.
See ``docs/lake.md``.

This room does without Spark, so that a node can use it too. ``weft.pipelines.lake`` builds on it to write tables.

Read in this order:

- ``address``, ``access`` and ``store``: where a table is, with which credentials it is reached, and its files, in a
  directory or in an object store. ``settings`` and ``files``: which table, and how its files are named. Pure values.
- ``tables``: which files a table is made of now; ``delta``, ``iceberg`` and ``parquet`` know that for their formats.
- ``spans``, ``events``: which events a file has, and rows as events. ``event_files``, ``index``, ``history``: the
  events of a stream, wherever in the table they are.
- ``helper``: a process that reads events for a node. The node talks to it through ``asking``, in ``frames``.
"""
