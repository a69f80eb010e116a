"""Nodes as real processes (``weft up``), to be killed, stopped and started again.

Ports are chosen before the start and held: so that nodes can start together, and again at the same place.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.node.raw_client import WAIT_S, RawClient
from tests.transport.held_port import held_port
from tests.up import COMMAND, SHORT_LOG, ended_in_time


class NodeProcess:
    """``wrapper`` is put in front of the command: ``ip netns exec ...``, say."""

    def __init__(self, directory: Path, node_id: str, address: str = "", wrapper: tuple[str, ...] = ()) -> None:
        self.node_id = node_id
        self.data = directory / node_id
        self._held = ExitStack()
        self.address = address or f"127.0.0.1:{self._held.enter_context(held_port())}"
        self.log: list[dict[str, Any]] = []  # its log lines
        self._wrapper = wrapper
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, *peers: NodeProcess) -> None:
        """Does not wait; ``wait_ready`` does."""
        assert self._process is None, "it runs already"
        command = [*self._wrapper, *COMMAND, "up", "--insecure", "--log-format", "json"]
        command += ["--data", str(self.data), "--node-id", self.node_id]
        command += ["--listen", self.address, "--admin", "127.0.0.1:0"]
        for peer in peers:
            command += ["--peer", peer.address]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | SHORT_LOG
        )
        self.log.clear()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        with ended_in_time(self._process):
            said = self._process.stdout.readline()
        assert said == "ready\n", f"{self.node_id} did not start: {self.log}"

    def _read_log(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        for line in self._process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"event": line.strip()})  # the banner, or a traceback

    def kill(self) -> None:
        """As a power cut would, as far as the process goes."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Politely; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(WAIT_S)
        assert self._reader is not None
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        self._process = None
        return status

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self._held.close()

    def client(self) -> RawClient:
        return RawClient(self.address)


@contextmanager
def nodes(directory: Path, *names: str) -> Iterator[list[NodeProcess]]:
    """Not started yet; whatever runs at the end is killed."""
    made = [NodeProcess(directory, name) for name in names]
    try:
        yield made
    finally:
        for node in made:
            node.close()
