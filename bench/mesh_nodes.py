"""Nodes for the benchmark of the mesh: real ones, each in a process of its own, on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

READY_S = 30.0


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def node(place: Path, name: str, peers: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """A node that serves; its address. ``settings`` are variables, as docs/configuration.md names them."""
    address = free_address()
    command = [str(Path(sys.executable).parent / "weft"), "up", "--insecure", "--log-level", "warning"]
    command += ["--data", str(place / name), "--node-id", name, "--listen", address, "--admin", free_address()]
    for peer in peers:
        command += ["--peer", peer]
    variables = os.environ | dict(settings or {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"node {name} did not start: exit status {process.wait(READY_S)}")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(READY_S)
        process.stdout.close()
