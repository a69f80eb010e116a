"""Spark reads the mesh and writes to it: ``format("weft")``, batch and streaming, no jar (docs/spark.md).

``session`` makes a Spark session that has this format (``java`` finds a Java); ``register`` adds it to an existing one.

What source and sink share:

- ``option_values``: options as Spark hands them over. ``connection``: where to connect and as whom, in every process.
- ``source``: the classes that Spark calls, a thin layer over the rest.

Reading, in the order from the options to the rows for Spark; only ``surveyor`` and ``reading`` talk to nodes:

- ``options``: all options. ``selection``: which streams. ``offsets``: how far, in the form that checkpoints keep.
- ``surveyor`` asks every node what it has; ``survey``: what each node said; ``holdings``: what they have together.
- ``planning``: ranges, limits, partitions, losses. ``reading``: an executor's work; ``rows`` makes its Arrow.
- ``typed``: payloads as columns. ``schemas``: where their schemas come from.

Writing begins at ``sink``; ``staging`` says how each row is written exactly once.
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
    from weft.spark.source import WeftSource  # needs pyspark; the rest of this room works without it

    spark.dataSource.register(WeftSource)


def view(spark: SparkSession, name: str, subscribe: str, **options: str) -> None:
    """Give topics a name in SQL, for this session: ``view(spark, "temperatures", "plant.*.temp", context="prod")``.

    ``options`` are those of ``format("weft")``. If the name exists already, it now stands for these topics instead.
    """
    register(spark)
    spark.read.format("weft").options(subscribe=subscribe, **options).load().createOrReplaceTempView(name)
