"""Servers as processes: Redis and NATS, if they are installed, and what the kernel knows of any of them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.mesh_nodes import free_address

READY_S_MAX = 30.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Server:
    pid: int
    port: int
    ready_s: float
    leaf_port: int = 0  # for leaf nodes of NATS


def found(program: str) -> str | None:
    """Its path, if it is installed: on PATH, or beside this Python."""
    return shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))


@contextmanager
def redis_server(place: Path) -> Iterator[Server]:
    """Synced before every answer; nothing else goes to the disk."""
    port = int(free_address().rpartition(":")[2])
    command = [_required("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]
    with _running(command, port, b"PING\r\n", b"+PONG") as server:
        yield server


@contextmanager
def nats_server(place: Path, domain: str = "hub", more: str = "") -> Iterator[Server]:
    """JetStream, synced before every answer. A hub listens for leaf nodes; ``more`` is added to its configuration."""
    port, leaf_port = (int(free_address().rpartition(":")[2]) for _ in range(2))
    more = more or f'leafnodes {{ listen: "127.0.0.1:{leaf_port}" }}'
    configuration = place / "nats.conf"
    configuration.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 8MB\nmax_pending: 256MB\n'
        f'jetstream {{ domain: {domain}, store_dir: "{place}", sync_interval: always, '
        f"max_mem: 1GB, max_file: 64GB }}\n{more}\n"
    )
    command = [_required("nats-server"), "--config", str(configuration)]
    with _running(command, port, b"CONNECT {}\r\nPING\r\n", b"PONG") as server:
        yield replace(server, leaf_port=leaf_port)


def _required(program: str) -> str:
    path = found(program)
    assert path is not None, f"{program} was looked for before"
    return path


@contextmanager
def _running(command: Sequence[str], port: int, question: bytes, answer: bytes) -> Iterator[Server]:
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(port, question, answer):
            if process.poll() is not None or time.perf_counter() - begin > READY_S_MAX:
                raise RuntimeError(f"{command[0]} did not start: exit status {process.poll()}")
            time.sleep(0.002)
        yield Server(process.pid, port, time.perf_counter() - begin)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(READY_S_MAX)


def _answers(port: int, question: bytes, answer: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as probe:
            probe.sendall(question)
            data = b""
            while answer not in data and (piece := probe.recv(4096)):
                data += piece
            return answer in data
    except OSError:
        return False


def cpu_s(pid: int) -> float:
    """Processor time of a process and of its children, those that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(each) for each in fields[11:15]) / TICKS_PER_S
    return own + sum(cpu_s(child) for child in _children(pid))


def resident_mb(pid: int) -> float:
    """Memory that a process and its children hold."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_BYTES / 1e6 + sum(resident_mb(child) for child in _children(pid))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
