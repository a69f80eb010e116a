"""A Spark session with ``format("weft")`` in it, made so that Python sources work and a laptop is not exposed.

Under ``spark-submit`` there is a session already: it is taken as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.errors import UsageError
from weft.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",  # measured best, as for the source's own batches
    "spark.log.level": "ERROR",  # at WARN every session begins with a page of lines that nobody can act on
    "spark.sql.adaptive.enabled": "false",  # streaming turns it off anyway, with a warning for every query
}
# A driver that runs here listens here, and nowhere else.
LOCAL_DEFAULTS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(app: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session there is, or a new one; ``register`` has been called on it."""
    prepare()
    from pyspark.sql import SparkSession

    from weft.spark import register

    given = dict(conf or {})
    master = master or given.pop("spark.master", None)
    builder = SparkSession.builder.appName(app)
    if not _submitted():
        builder = builder.master(master or LOCAL)
    defaults = DEFAULTS | (LOCAL_DEFAULTS if (master or LOCAL).startswith("local") and not _submitted() else {})
    for name, value in (defaults | given).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def prepare() -> None:
    """What has to be so before Spark starts: a Java, and workers that run the Python that has Weft."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError("Spark is not installed here: pip install 'weft[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _submitted():
        use_java(cache_directory())


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def _submitted() -> bool:
    """Whether spark-submit started us: its Java is running and waits for us at this port."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
