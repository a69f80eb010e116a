"""The one Spark session of the suite, for pipelines too, a cluster, a Spark Connect server, and an S3."""

from tests.pipelines.cluster import cluster, connect_server
from tests.pipelines.s3 import s3
from tests.spark.conftest import spark

__all__ = ["cluster", "connect_server", "s3", "spark"]
