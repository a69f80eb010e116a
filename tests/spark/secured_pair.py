"""Two secured nodes of one mesh, started by the ``weft`` command, and commands with Spark beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.node.secured import token_from
from tests.spark.meshes import until
from tests.transport.held_port import held_port
from tests.up import RunningNode, up
from weft.client import TlsFiles, Unauthenticated
from weft.client.blocking import Client, connect

SPARK_TIMEOUT_S = 480.0  # a bound, for machines that are loaded ten times over


class SecuredPair:
    """Nodes a and b, which know each other. The key of a's context is good at both. b can be stopped and started."""

    def __init__(self, place: Path, first: RunningNode, second: str) -> None:
        self.first, self.second = first.grpc, second
        self._node = first
        self._place = place
        context = first.context
        assert context.tls_root and context.tls_certificate and context.tls_key and context.token, "it is secured"
        self._token = context.token
        token_file = place / "token"
        token_file.write_text(context.token)
        self.mesh: dict[str, str] = {  # as in the configuration of a pipeline
            "token": f"file:{token_file}",
            "tls_root": context.tls_root,
            "tls_certificate": context.tls_certificate,
            "tls_key": context.tls_key,
        }

    @property
    def options(self) -> dict[str, str]:
        """As options of ``format("weft")``."""
        names = {"tls_root": "tlsRoot", "tls_certificate": "tlsCertificate", "tls_key": "tlsKey"}
        return {names.get(name, name): value for name, value in self.mesh.items()}

    @contextmanager
    def second_node(self) -> Iterator[RunningNode]:
        """b runs, and a knows it."""
        flags = ["--node-id", "b", "--listen", self.second, "--peer", self.first]
        enrolling: tuple[str, ...] = ()
        token = ""
        data = self._place / "b"
        if not data.exists():
            token = token_from(self._place / "a", "b")
            enrolling = ("--ca", f"https://{self._node.ready['ca']}", "--token", "-")
        with up(data, *flags, *enrolling, stdin=token) as node:
            with self.client(self.first) as client:
                until(lambda: [peer.node_id for peer in client.peers() if peer.state == "alive"] == ["b"])
            until(self._is_let_in_at_second)
            yield node

    def _is_let_in_at_second(self) -> bool:
        """b has heard of the key, which was made at a."""
        try:
            with self.client(self.second) as client:
                client.topics()
        except Unauthenticated:
            return False
        return True

    def client(self, address: str) -> Client:
        files = [Path(self.mesh[name]) for name in ("tls_root", "tls_certificate", "tls_key")]
        return connect([address], token=self._token, tls=TlsFiles(*files), learns=False)


@contextmanager
def secured_pair(place: Path) -> Iterator[SecuredPair]:
    """a runs; ``second_node`` starts b."""
    with ExitStack() as stack:
        port = stack.enter_context(held_port())
        node = stack.enter_context(up(place / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0"))
        yield SecuredPair(place, node, f"127.0.0.1:{port}")


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def run_with_spark(command: Sequence[str | Path], timeout_s: float = SPARK_TIMEOUT_S) -> Ended:
    """A command that starts Spark, to its end; what is left of it is killed, its Java and workers too."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            status = process.wait(timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        return Ended(status, out.read(), err.read())
