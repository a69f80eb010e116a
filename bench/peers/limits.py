"""What the machine itself can do: a sync, a round trip over loopback, a copy in memory."""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
from pathlib import Path

import numpy as np
from bench.mesh import synced_writes

SYNCS = 200
ROUND_TRIPS = 2_000
COPY_BYTES = 256 << 20
COPIES = 5


def machine_limits(place: Path) -> dict[str, list[float | str]]:
    """Figure and unit, by name."""
    syncs = sorted(synced_writes(place, SYNCS))
    return {
        "limit: write and fdatasync of 4 KiB, p50": [syncs[SYNCS // 2] * 1e3, "ms"],
        "limit: write and fdatasync of 4 KiB, p99": [syncs[SYNCS * 99 // 100] * 1e3, "ms"],
        "limit: 100 bytes over loopback and back, p50": [round_trip_s() * 1e3, "ms"],
        "limit: memory copied": [copied_bytes_per_s() / 1e6, "MB/s"],
    }


def round_trip_s() -> float:
    """Two threads with blocking sockets, and no event loop."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as ours,
        listener.accept()[0] as theirs,
    ):
        for each in (ours, theirs):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        echoing = threading.Thread(target=_echo, args=(theirs,))
        echoing.start()
        times = []
        for _ in range(ROUND_TRIPS):
            begin = time.perf_counter()
            ours.sendall(bytes(100))
            ours.recv(4096)
            times.append(time.perf_counter() - begin)
        ours.shutdown(socket.SHUT_WR)
        echoing.join()
    return statistics.median(times)


def _echo(connection: socket.socket) -> None:
    while data := connection.recv(4096):
        connection.sendall(data)


def copied_bytes_per_s() -> float:
    source = np.frombuffer(os.urandom(1 << 20) * (COPY_BYTES >> 20), dtype=np.uint8)
    target = np.empty_like(source)
    np.copyto(target, source)
    times = []
    for _ in range(COPIES):
        begin = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - begin)
    return COPY_BYTES / statistics.median(times)
