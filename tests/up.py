"""``weft up`` as users start it: a process of its own, on its real event loop, secured but for ``--insecure``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.request import urlopen

import weft
from weft.client import Connecting
from weft.contexts import FILE, Context, read_contexts

COMMAND: Final = (sys.executable, "-c", "from weft.cli.main import main; main()")
FREE_PORTS: Final = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
# A start writes ahead 66 MiB otherwise: that is a user's disk, once; here it would be thousands of times.
SHORT_LOG: Final = {"WEFT_STORAGE_PREPARED_BYTES": str(1024 * 1024)}
# Tests read the metrics of nodes that know no key; tests/console has what strangers get otherwise.
OPEN_METRICS: Final = {"WEFT_ADMIN_METRICS": "open"}
END_TIMEOUT_S: Final = 60  # a bound, not an expectation: the machine may be busy


@dataclass(frozen=True)
class RunningNode:
    """A node that has said ready. ``config`` is the directory with the context that it wrote for its clients."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]  # its own line in the log
    config: Path
    _log: IO[str]

    @property
    def grpc(self) -> str:
        return str(self.ready["grpc"])

    @property
    def admin(self) -> str:
        return str(self.ready["admin"])

    def gateway(self, name: str) -> str:
        """The address of a gateway's listener: ``exmps``, ``emm-quic``."""
        listeners = (listener.split() for listener in str(self.ready["gateways"]).split(", "))
        return next(address for each, address in listeners if each == name)

    @property
    def flags(self) -> tuple[str, ...]:
        """For commands that use this node, if it is insecure."""
        return ("--node", self.grpc, "--insecure")

    @property
    def context(self) -> Context:
        """What a secured node wrote on its first start."""
        contexts = read_contexts(self.config / FILE)
        return next(each for each in contexts.contexts.values() if self.grpc in each.nodes)

    def client(self) -> Connecting:
        """The SDK, with the rights of the context."""
        context = self.context
        assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
        tls = weft.TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
        return weft.connect(list(context.nodes), token=context.token, tls=tls)

    def said(self) -> str:
        """All that it has written to standard error until now."""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def logged(self) -> list[dict[str, Any]]:
        """Its log lines until now."""
        return [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]

    def metrics(self) -> str:
        with urlopen(f"http://{self.admin}/metrics", timeout=END_TIMEOUT_S) as answer:
            return bytes(answer.read()).decode()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)

    def end_quietly(self) -> None:
        """As it has to end when it is asked to, with no defect in its log."""
        assert self.end() == 0, self.said()
        assert "Traceback" not in self.said() and "exception" not in self.said(), self.said()


@contextmanager
def up(
    data: Path,
    *flags: str,
    config: Path | None = None,
    stdin: str = "",
    files_max: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[RunningNode]:
    """On free ports, unless flags say otherwise. Contexts are written to ``config``, or beside ``data``. ``files_max``:
    how many files it may have open. ``environ``: further variables."""
    command = [*COMMAND, "up", "--data", str(data), *FREE_PORTS, "--log-format", "json", *flags]
    if files_max is not None:
        command = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files_max), *command]
    own = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    own |= {**SHORT_LOG, **OPEN_METRICS, **(environ or {})}
    own["WEFT_CONFIG_DIR"] = str(config or data.with_name(f"{data.name}-config"))
    with started(command, own, stdin) as node:
        yield node


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str], stdin: str = "") -> Iterator[RunningNode]:
    """A command that becomes a node which logs JSON, once it has said ready; killed at the end if it still runs."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environ
        ) as process,
    ):
        try:
            assert process.stdin is not None and process.stdout is not None
            with ended_in_time(process):
                process.stdin.write(stdin)
                process.stdin.close()
                line = process.stdout.readline()
            node = RunningNode(process, {}, Path(environ.get("WEFT_CONFIG_DIR", "/nonexistent")), log)
            assert line == "ready\n", node.said()
            node.ready.update(next(each for each in node.logged() if each["event"] == "node_ready"))
            yield node
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def ended_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """What waits for the output of a process waits for its end at worst, and that comes."""
    watch = threading.Timer(END_TIMEOUT_S, process.kill)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
