"""An S3 for tables in a bucket."""

from tests.pipelines.s3 import s3

__all__ = ["s3"]
