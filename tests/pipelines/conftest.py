"""The one Spark session of the suite, for pipelines too, and a cluster."""

from tests.pipelines.cluster import cluster
from tests.spark.conftest import spark

__all__ = ["cluster", "spark"]
