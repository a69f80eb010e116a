"""A Spark session that has ``format("weft")``, with settings for Python sources. A local one opens no port to others.

Under ``spark-submit`` there is a session already, which is used as it is. With ``sc://host:port`` as the master, or in
the variable SPARK_REMOTE, it is a session of a Spark Connect server, and no Java runs here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from weft.errors import UsageError
from weft.spark.java import use_java
from weft.spark.java_classes import class_options
from weft.spark.workers import use_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
MASTER: Final = "spark.master"
CONNECT: Final = "sc://"
REMOTE_VARIABLE: Final = "SPARK_REMOTE"
SUBMIT_VARIABLE: Final = "SPARK_SUBMIT_OPTS"  # Spark's start script passes them to Java
LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",  # measured best, as for the source's own batches
    "spark.sql.adaptive.enabled": "false",  # streaming turns it off anyway, with a warning for every query
}
# A driver that runs on this machine listens only on this machine's loopback address.
LOCAL_DEFAULTS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    app: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log_level: Literal["error", "fatal"] = "error",
) -> SparkSession:
    """The existing session, or a new one; ``register`` has been called on it."""
    prepare()
    from pyspark.sql import SparkSession

    from weft.spark import register

    given = dict(conf or {})
    master = master or given.pop(MASTER, None)
    builder = SparkSession.builder.appName(app)
    settings = DEFAULTS | given
    if (remote := _remote(master)) is not None:
        _check_connect()
        builder = builder.remote(remote)
    elif not is_submitted():
        java = use_java(cache_directory())
        _quiet(log_level, class_options(cache_directory(), java, _spark_here(), os.environ))
        builder = builder.master(master or LOCAL)
        if (master or LOCAL).startswith("local"):
            use_python(cache_directory())
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise Spark warns of the address that it guesses
            settings = DEFAULTS | LOCAL_DEFAULTS | given
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def prepare() -> None:
    """Call this before importing Spark: checks that it is installed, and has workers run the Python that has Weft."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UsageError("Spark is not installed here: pip install 'weft[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def is_submitted() -> bool:
    """Whether spark-submit started us: its Java is running and waits for us at this port."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _remote(master: str | None) -> str | None:
    """The Spark Connect server to use, if any."""
    if master is None:
        return os.environ.get(REMOTE_VARIABLE) or None
    return master if master.startswith(CONNECT) else None


def _check_connect() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise UsageError(f"Spark Connect is not installed here: pip install 'weft[connect]' ({error})") from None


def _quiet(log_level: str, others: Sequence[str]) -> None:
    """Set the log level and other options for Spark's Java, which reads them when it starts. An existing logging
    setting is left alone."""
    if SUBMIT_VARIABLE not in os.environ and "SPARK_CONF_DIR" not in os.environ:
        quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}", f"-Dweft.spark.log={log_level}"
        os.environ[SUBMIT_VARIABLE] = " ".join((*quiet, *others))


def _spark_here() -> str:
    """Which Spark this is, and where, as a text: another Spark has other jars."""
    import pyspark

    return f"{pyspark.__version__} {os.environ.get('SPARK_HOME') or pyspark.__file__}"
