"""The one Spark session of the suite, for pipelines too, a cluster, and a Spark Connect server."""

from tests.pipelines.cluster import cluster, connect_server
from tests.spark.conftest import spark

__all__ = ["cluster", "connect_server", "spark"]
