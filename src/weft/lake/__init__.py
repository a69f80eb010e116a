"""Tables as files: where they are, who may reach them, and which files they are made of. See ``docs/lake.md``.

Without Spark, so that a node reads them too. ``weft.pipelines.lake`` writes tables on top of this room.

Read in this order:

- ``address``, ``access`` and ``store``: where a table is, as whom it is reached, and its files, in a directory or in an
  object store. ``settings`` and ``files``: which table, and what a file of it is called. Pure values.
- ``tables``: what a table is made of now; ``delta``, ``iceberg`` and ``parquet`` know it, each in its own way.
"""
