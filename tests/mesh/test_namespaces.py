"""Two nodes in network namespaces of their own, joined by a virtual cable that is unplugged and plugged in again.

Without keys a node listens on loopback addresses only, so the cable carries such: 127.77.0.0/24, which the kernel
routes over a cable when it is told to. Everything is done with the ``weft`` command, as a person would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mesh.processes import NodeProcess
from tests.node.raw_client import WAIT_S
from tests.up import COMMAND, ended_in_time

HOSTS = ("127.77.0.1", "127.77.0.2")


def ip(*words: str, namespace: str | None = None) -> None:
    inside = () if namespace is None else ("-n", namespace)
    subprocess.run(("ip", *inside, *words), check=True, capture_output=True, timeout=WAIT_S)


def within(namespace: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace)


@contextmanager
def cable() -> Iterator[tuple[str, str]]:
    """Two namespaces with an interface ``cable`` each; the test is skipped where that is not allowed."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the ip command")
    names = (f"weft-{os.getpid()}-a", f"weft-{os.getpid()}-b")
    made: list[str] = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine allows no network namespaces: {error.stderr.decode().strip()}")
        for name, host in zip(names, HOSTS, strict=True):
            localnet = "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"
            subprocess.run((*within(name), "sh", "-c", localnet), check=True, timeout=WAIT_S)
            ip("link", "set", "lo", "up", namespace=name)
            ip("addr", "del", "127.0.0.1/8", "dev", "lo", namespace=name)  # or all of 127 would be local
            ip("addr", "add", "127.0.0.1/32", "dev", "lo", namespace=name)
            ip("addr", "add", f"{host}/24", "dev", "cable", namespace=name)
            ip("link", "set", "cable", "up", namespace=name)
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


@contextmanager
def weft(namespace: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A ``weft`` command in a namespace, with pipes."""
    process = subprocess.Popen(
        (*within(namespace), *COMMAND, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        with process, ended_in_time(process):
            yield process
    finally:
        process.kill()


@pytest.mark.req("NFR-02", "PL-01", "PL-04")
def test_a_cable_is_unplugged(tmp_path: Path) -> None:
    with cable() as (left, right):
        a = NodeProcess(tmp_path, "a", f"{HOSTS[0]}:7400", within(left))
        b = NodeProcess(tmp_path, "b", f"{HOSTS[1]}:7400", within(right))
        try:
            a.start()
            b.start(a)
            a.wait_ready()
            b.wait_ready()
            sub = ("sub", "plant.>", "--from", "earliest", "--json", "--count", "20")
            with (
                weft(right, *sub, "--node", b.address, "--insecure") as reader,
                weft(left, "pub", "plant.t", "--lines", "--node", a.address, "--insecure") as writer,
            ):
                assert writer.stdin is not None and reader.stdout is not None
                send(writer, range(10))
                events = [json.loads(reader.stdout.readline()) for _ in range(10)]
                ip("link", "set", "cable", "down", namespace=left)
                send(writer, range(10, 20))
                writer.stdin.close()
                assert writer.wait(WAIT_S) == 0, "what is published is safe at its node, cable or not"
                ip("link", "set", "cable", "up", namespace=left)
                events += [json.loads(reader.stdout.readline()) for _ in range(10)]
                assert reader.wait(WAIT_S) == 0
            assert [(each["offset"], each["payload"]) for each in events] == [(n, str(n)) for n in range(20)]
            assert {(each["topic"], each["origin"]) for each in events} == {("plant.t", "a")}
        finally:
            a.close()
            b.close()


def send(writer: subprocess.Popen[str], numbers: range) -> None:
    assert writer.stdin is not None
    for number in numbers:
        writer.stdin.write(f"{number}\n")
    writer.stdin.flush()
