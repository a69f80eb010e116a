"""Nodes for the benchmark of the mesh: real ones, each in a process of its own, on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.node.secured import key_for
from tests.up import COMMAND, up
from weft.client import Connecting, TlsFiles, connect
from weft.client.connecting import tls_files
from weft.limits import PREPARED_BYTES

READY_S = 30.0
# As nodes start for users: those of tests write less ahead, and a log that grows takes longer to sync (ADR 29).
AS_USERS_START = {"WEFT_STORAGE_PREPARED_BYTES": str(PREPARED_BYTES)}


@dataclass(frozen=True)
class Place:
    """A node's address, and what a client needs to use it."""

    address: str
    tls: TlsFiles | None = None
    token: str | None = None

    def client(self) -> Connecting:
        return connect(self.address, insecure=self.tls is None, tls=self.tls, token=self.token, learns=False)


@contextmanager
def secured_pair(place: Path) -> Iterator[tuple[Place, Place]]:
    """Two nodes with a link between them, as ``weft up`` starts them: secured, the second enrolled with the first."""
    with up(place / "near", "--node-id", "near", "--ca-listen", "127.0.0.1:0", environ=AS_USERS_START) as near:
        token = command_output("ca", "token", "far", "--data", str(place / "near"))
        flags = ("--peer", near.grpc, "--ca", f"https://{near.ready['ca']}", "--token", "-")
        with up(place / "far", *flags, stdin=token, environ=AS_USERS_START) as far:
            found = near.context
            tls = tls_files(found)
            _, key = key_for(place / "far", time.time(), publish=(">",), subscribe=(">",))
            yield Place(near.grpc, tls, found.token), Place(far.grpc, tls, key)


@contextmanager
def insecure_pair(place: Path) -> Iterator[tuple[Place, Place]]:
    with (
        up(place / "near", "--insecure", environ=AS_USERS_START) as near,
        up(place / "far", "--insecure", "--peer", near.grpc, environ=AS_USERS_START) as far,
    ):
        yield Place(near.grpc), Place(far.grpc)


def command_output(*words: str) -> str:
    """Of the ``weft`` command."""
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=True, timeout=READY_S).stdout


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
