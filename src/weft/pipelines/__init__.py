"""The data pipeline: Spark jobs between the mesh and lake tables, one module each.

``weft pipeline run NAME --config FILE`` runs one; each is also a plain ``spark-submit`` application. ``catalogue``
lists them, ``running`` runs them, ``lake`` writes tables. See ``docs/pipelines.md``.
"""
