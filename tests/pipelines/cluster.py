"""Spark elsewhere, on loopback, for tests: a standalone cluster of a master and two workers, and a Spark Connect
server that runs on it, each a process of its own.

They are fixtures of the whole run, for every pipeline that is to run there unchanged. (SPK-06, LAK-05)
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from weft.errors import UsageError
from weft.spark.java import use_java
from weft.spark.session import SUBMIT_VARIABLE, cache_directory
from weft.spark.workers import VARIABLE as PYTHON_VARIABLE
from weft.spark.workers import use_python

START_TIMEOUT_S = 180.0  # a loaded machine starts three Javas
POLL_S = 0.05
WORKERS = 2
CORES = 2  # of each application: one of each worker
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Registering worker")


SERVING = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
CONNECT_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """Where it is, and the master that it runs on itself."""

    address: str
    master: str
    warehouse: Path  # where its tables are

    def spark_section(self) -> dict[str, object]:
        return {"master": self.address, "conf": {"spark.sql.shuffle.partitions": "2"}}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and what a driver on this machine has to be told to use it."""

    master: str
    logs: Path

    def spark_section(self) -> dict[str, Any]:
        """The ``[spark]`` of a pipeline's configuration."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executor.memory": "512m",
            "spark.cores.max": str(CORES),
            "spark.sql.shuffle.partitions": "2",
        }
        return {"master": self.master, "conf": conf}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers, with room for two applications: one of a driver, and the Connect server."""
    try:
        use_java(cache_directory())
    except UsageError as error:
        pytest.skip(str(error))
    use_python(cache_directory())  # workers are on this machine, and there are dozens of them
    logs = tmp_path_factory.mktemp("cluster")
    with ExitStack() as processes:
        master_log = logs / "master.log"
        processes.enter_context(
            _daemon("master.Master", ["--webui-port", "0", "--host", "127.0.0.1", "--port", "0"], master_log)
        )
        url = _found(MASTER_URL, master_log, 1)[0]
        for number in range(WORKERS):
            place = logs / f"worker-{number}"
            arguments = ["--webui-port", "0", "--host", "127.0.0.1", "--port", "0", "--cores", "2", "--memory", "1g"]
            processes.enter_context(
                _daemon("worker.Worker", [*arguments, "--work-dir", str(place), url], logs / f"worker-{number}.log")
            )
        _found(REGISTERED, master_log, WORKERS)
        yield Cluster(url, logs)


@pytest.fixture(scope="session")
def connect_server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """In front of the cluster, as a team would share it; clients reach it by gRPC alone."""
    for module in CONNECT_MODULES:
        pytest.importorskip(module, reason="Spark Connect needs pip install 'weft[connect]'")
    place = tmp_path_factory.mktemp("connect")
    log = place / "server.log"
    conf: dict[str, str] = {
        **cluster.spark_section()["conf"],
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    given = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    arguments = ["--master", cluster.master, *given, "--class", server, "spark-internal"]
    with _daemon("SparkSubmit", arguments, log, memory="768m", cwd=place):
        yield ConnectServer(f"sc://127.0.0.1:{_found(SERVING, log, 1)[0]}", cluster.master, place / "warehouse")


@contextmanager
def _daemon(
    name: str, arguments: list[str], log: Path, memory: str = "256m", cwd: Path | None = None
) -> Iterator[None]:
    """One of Spark's own processes, ended with all that it started."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    # A session that was in this process before has quieted the Java of those that come after it.
    inherited = {name: value for name, value in os.environ.items() if name != SUBMIT_VARIABLE}
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": memory}
    environ = {PYTHON_VARIABLE: sys.executable, **inherited, **own}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [program, f"org.apache.spark.deploy.{name}", *arguments],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=cwd,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _found(words: re.Pattern[str], log: Path, times: int) -> list[str]:
    """Wait until a log has said something so often."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while len(found := words.findall(log.read_text(errors="replace"))) < times:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{log} does not say {words.pattern!r} {times} times:\n{log.read_text()[-3000:]}")
        time.sleep(POLL_S)
    return found
