"""Spark reads the mesh and writes to it: ``format("weft")``, batch and streaming, no jar (docs/spark.md).

``session`` makes a Spark session that has it (``java`` finds a Java); ``register`` adds it to one that is there.

What source and sink share:

- ``option_values``: options as Spark hands them over. ``connection``: where to connect and as whom, in every process.
- ``source``: the classes that Spark calls; thin around the rest.

Reading, from what is asked to what Spark gets; only ``surveyor`` and ``reading`` talk to nodes:

- ``options``: what can be asked. ``selection``: which streams. ``offsets``: how far, as checkpoints have it.
- ``surveyor`` asks every node what it has; a ``survey`` is who said what, ``holdings`` what they have together.
- ``planning``: ranges, limits, partitions, losses. ``reading`` is an executor at work, ``rows`` makes its Arrow.
- ``typed``: payloads as columns. ``schemas``: where their schemas come from.

Writing begins at ``sink``; ``staging`` tells how a row gets there exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.spark.connection import CONNECTION_OPTIONS, Connection
from weft.spark.option_values import BadOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CONNECTION_OPTIONS", "BadOption", "Connection", "register", "view"]


def register(spark: SparkSession) -> None:
    """Make ``format("weft")`` known to this session."""
    from weft.spark.source import WeftSource  # needs pyspark; the rest of this room is of use without it

    spark.dataSource.register(WeftSource)


def view(spark: SparkSession, name: str, subscribe: str, **options: str) -> None:
    """Give topics a name in SQL, for this session: ``view(spark, "temperatures", "plant.*.temp", context="prod")``.

    ``options`` are those of ``format("weft")``. A name that there is, is given to these topics instead.
    """
    register(spark)
    spark.read.format("weft").options(subscribe=subscribe, **options).load().createOrReplaceTempView(name)
