"""Apache Kafka in KRaft mode, one broker on loopback: fetched by Maven, started, stopped by its pid.

``fetch()`` copies Kafka's jars into ``build/peers/kafka`` once. ``kafka_server(place)`` is a context manager; the
address for clients is ``127.0.0.1:{server.port}``. Whether a topic is synced before the answer is a setting of the
topic: ``flush.messages=1`` is synced, the default is not.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.process import Server, answers, found, free_port, running
from bench.transport_kinds import Certificates

HERE = Path(__file__).parent
JARS = HERE.parents[1] / "build" / "peers" / "kafka"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_S_MAX = 600.0
CLUSTER_ID = "d2VmdC1iZW5jaC1rYWZrYQ"
HEAP = ("-Xms512m", "-Xmx512m")
# ApiVersions, version 0: size, key, version, correlation id, no client id.
HELLO = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
HELLO_ANSWER = bytes.fromhex("00000001 0000")  # correlation id, no error


def why_not() -> str:
    """Why Kafka cannot run here; empty if it can."""
    if not found("java"):
        return "Kafka needs java (Debian: apt install default-jre-headless)"
    if not _is_fetched() and not found("mvn"):
        return "Kafka's jars come by mvn (Debian: apt install maven)"
    return ""


def _is_fetched() -> bool:
    return (JARS / ".ready").exists()


def fetch() -> Path:
    """Kafka and what it needs, as a directory of jars."""
    if not _is_fetched():
        shutil.rmtree(JARS, ignore_errors=True)
        words = ["mvn", "-q", "-B", "-f", str(HERE / "java"), COPY, f"-DoutputDirectory={JARS}"]
        subprocess.run([*words, "-DincludeScope=runtime"], check=True, timeout=FETCH_S_MAX, capture_output=True)
        (JARS / ".ready").touch()
    return JARS


@contextmanager
def kafka_server(place: Path, certificates: Certificates | None = None, partitions: int = 1) -> Iterator[Server]:
    """A broker that is its own controller, with its log below ``place``. With certificates it has a second port.
    ``partitions``: of topics that are made by their first event."""
    port, control_port, tls_port = (free_port() for _ in range(3))
    settings = place / "server.properties"
    settings.write_text(_settings(place, port, control_port, tls_port, certificates, partitions))
    java = ["java", "-cp", f"{fetch()}/*"]
    words = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)]
    subprocess.run(words, check=True, capture_output=True, timeout=FETCH_S_MAX)
    start = [*java[:1], *HEAP, *java[1:], "kafka.Kafka", str(settings)]
    with running(start, lambda: answers(port, HELLO, HELLO_ANSWER), log=place / "kafka.log") as (pid, ready_s):
        has_tls = certificates is not None
        yield Server(pid, port, ready_s, tls_port=tls_port if has_tls else 0, certificates=certificates)


def _settings(
    place: Path, port: int, control_port: int, tls_port: int, certificates: Certificates | None, partitions: int
) -> str:
    listeners = f"PLAIN://127.0.0.1:{port}"
    found = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{control_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SSL",
        "log.dirs": str(place / "kafka"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "120000",  # on a busy machine, it loses sight of itself
        "message.max.bytes": "8000000",
        "num.partitions": str(partitions),
    }
    if certificates is not None:
        listeners += f",SECURED://127.0.0.1:{tls_port}"
        pem, root = certificates.here / "server.pem", certificates.here / "root.pem"
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(root),
            "ssl.client.auth": "required",
        }
    found |= {"listeners": f"{listeners},CONTROLLER://127.0.0.1:{control_port}", "advertised.listeners": listeners}
    return "".join(f"{name}={value}\n" for name, value in found.items())
