"""Spark looks for modules called ``pyspark_*`` with a ``DefaultSource``: by this one ``format("weft")`` is there
unasked, also in jobs that bring Weft with ``--py-files``.
"""

from weft.spark.source import WeftSource as DefaultSource

__all__ = ["DefaultSource"]
