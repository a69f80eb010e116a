"""A disk below its reserve: whoever asks, reads the log or waits with `weft pub` is told, and told when it is over."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import LogCapture

from tests.log.test_disk_full import small_disk
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.limits import MIB
from weft.log.errors import DiskFull
from weft.node.disk_watch import DiskWatch

__all__ = ["small_disk"]

RESERVE_BYTES = 16 * MIB  # the least that may be set, and a little more than the small disk has free with its ballast
POLL_S = 0.02


def until(true: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline_s, f"not within {END_TIMEOUT_S} s: {what}"
        time.sleep(POLL_S)


def ready(node: RunningNode) -> httpx.Response:
    return httpx.get(f"http://{node.admin}/readyz", trust_env=False, timeout=END_TIMEOUT_S)


def told(node: RunningNode) -> list[dict[str, Any]]:
    return [each for each in node.logged() if each["event"].startswith("disk_")]


@contextmanager
def publishing(node: RunningNode, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """``weft pub`` with the node's context, and the lines that it has written to standard error."""
    environ = {**os.environ, "WEFT_CONFIG_DIR": str(node.config)}
    lines: list[str] = []
    with subprocess.Popen(
        [*COMMAND, "pub", *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        errors = process.stderr
        assert errors is not None
        reader = threading.Thread(target=lambda: lines.extend(iter(errors.readline, "")))
        reader.start()
        try:
            yield process, lines
        finally:
            if process.poll() is None:
                process.kill()
            reader.join()


@pytest.mark.req("OBS-01", "SEC-07")
def test_a_disk_below_its_reserve_is_told_until_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    data, settings = small_disk / "data", tmp_path / "weft.toml"
    settings.write_text(f"[storage]\ndisk_reserve_bytes = {RESERVE_BYTES}\n")
    with up(data, "--config", str(settings), config=tmp_path / "config") as node:
        answer = ready(node)
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        (reason,) = answer.json()["reasons"]
        assert reason.startswith("the disk is full: publishing is refused (free ")
        assert reason.endswith(f", reserve {RESERVE_BYTES}, directory {data})")
        until(lambda: told(node), "the log says it")
        assert "weft_disk_full 1.0" in node.metrics()

        with publishing(node, "plant.t", "waits for room") as (process, lines):
            until(lambda: lines or process.poll() is not None, "a word on why it waits")
            assert lines, "it ended without a word"
            assert "waiting: the disk is full: publishing is refused" in lines[0]
            assert f"reserve {RESERVE_BYTES}" in lines[0]
            assert "free " in lines[0]
            (small_disk / "ballast").unlink()
            assert process.wait(END_TIMEOUT_S) == 0
            assert len(lines) == 1, "once"
        until(lambda: ready(node).status_code == 200, "it is ready")
        until(lambda: len(told(node)) > 1, "the log says that it is over")
        assert "weft_disk_full 0.0" in node.metrics()
        full, room = told(node)
        assert (full["level"], full["event"], full["directory"]) == ("warning", "disk_full", str(data))
        assert (full["reserve"], full["free"] < RESERVE_BYTES) == (RESERVE_BYTES, True)
        assert (room["level"], room["event"], room["directory"]) == ("info", "disk_has_room", str(data))
        assert node.end() == 0


def test_a_reserve_larger_than_the_disk_is_told(tmp_path: Path) -> None:
    """No right to mount a disk is needed for this one."""
    reserve = 1 << 40
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize >= reserve:
        pytest.skip("more than 1 TiB is free here, and no reserve may be larger")
    settings = tmp_path / "weft.toml"
    settings.write_text(f"[storage]\ndisk_reserve_bytes = {reserve}\n")
    with up(tmp_path / "data", "--config", str(settings)) as node:
        assert ready(node).status_code == 503
        assert f"reserve {reserve}, directory {tmp_path / 'data'}" in ready(node).json()["reasons"][0]


def test_each_change_is_logged_once() -> None:
    found: list[DiskFull | None] = [None]
    capture = LogCapture()
    watch = DiskWatch(lambda: found[0], Path("/data"), structlog.wrap_logger(None, processors=[capture]))
    assert watch.look() is None
    found[0] = DiskFull("no room", free=1, reserve=2)
    for _ in range(3):
        assert str(watch.look()) == "no room (free 1, reserve 2, directory /data)"
    found[0] = DiskFull("no room", free=0, reserve=2)
    assert str(watch.look()) == "no room (free 0, reserve 2, directory /data)", "always as it is now"
    found[0] = None
    for _ in range(3):
        assert watch.look() is None
    facts: dict[str, Any] = {"reason": "no room", "free": 1, "reserve": 2, "directory": "/data"}
    assert capture.entries == [
        {"event": "disk_full", "log_level": "warning", **facts},
        {"event": "disk_has_room", "log_level": "info", "directory": "/data"},
    ]
