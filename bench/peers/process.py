"""Servers as processes of their own, stopped by their pid, and what the kernel knows of any of them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.mesh_nodes import free_address
from bench.transport_kinds import Certificates

READY_S_MAX = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Server:
    pid: int
    port: int
    ready_s: float
    tls_port: int = 0  # asks for certificates
    leaf_port: int = 0  # for leaf nodes of NATS
    certificates: Certificates | None = None


def found(program: str) -> str | None:
    """Its path, if it is installed: on PATH, or beside this Python."""
    return shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))


def required(program: str) -> str:
    path = found(program)
    assert path is not None, f"{program} was looked for before"
    return path


def free_port() -> int:
    return int(free_address().rpartition(":")[2])


@contextmanager
def running(
    command: Sequence[str],
    is_ready: Callable[[], bool],
    *,
    environ: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[tuple[int, float]]:
    """The pid of a process that serves, and how many seconds it took until then; it is stopped at the end."""
    begin = time.perf_counter()
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environ)
    try:
        while not is_ready():
            if process.poll() is not None or time.perf_counter() - begin > READY_S_MAX:
                raise RuntimeError(f"{command[0]} did not start: exit status {process.poll()}, output in {log}")
            time.sleep(0.002)
        yield process.pid, time.perf_counter() - begin
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(READY_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int, question: bytes, answer: bytes) -> bool:
    """Whether a server on loopback says ``answer`` when it is asked."""
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
    """Processor time of a process and of its children, those that ended included. None, of one that ends just now."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = sum(int(each) for each in fields[11:15]) / TICKS_PER_S
        return own + sum(cpu_s(child) for child in children(pid))
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def resident_mb(pid: int) -> float:
    """Memory that a process and its children hold."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_BYTES / 1e6 + sum(resident_mb(child) for child in children(pid))


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
