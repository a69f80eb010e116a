"""One Spark session for all tests of a process that need one, and one node for those that need no more.

Tests with Spark are in one of three groups, each run by one process (``pytest.mark.xdist_group``): ``spark`` uses the
session, ``drivers`` starts drivers of its own as well, ``cluster`` uses a cluster and a Spark Connect server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from weft.client.blocking import Client
from weft.errors import UsageError
from weft.spark.java import find_java
from weft.spark.session import session
from weft.testing import blocking_mesh
from weft.testing.live_blocking import BlockingMesh


@pytest.fixture(scope="session")
def mesh() -> Iterator[BlockingMesh]:
    """One node, n0."""
    with blocking_mesh(1) as made:
        yield made


@pytest.fixture(scope="session")
def client(mesh: BlockingMesh) -> Iterator[Client]:
    with mesh.client() as made:
        yield made


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2], without a UI, on loopback only."""
    try:
        find_java(os.environ)
    except UsageError as error:
        pytest.skip(str(error))
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    made = session(
        "weft tests",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(warehouse)},
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
