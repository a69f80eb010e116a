"""Whoever has proved nothing costs next to nothing (docs/security.md): crowds of strangers at every port of a node as
users start it, secured, with few files that it may have open."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from tests.transport.quic.foreign import foreign_client
from tests.up import COMMAND, RunningNode, up
from weft import exmp
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.http2.tls import for_http2
from weft.transport.peers.links import CONTROL_STREAM, EVENT_STREAM
from weft.wire.rpc import RpcError, StatusCode

pytestmark = pytest.mark.req("SEC-04")

WAIT_S: Final = 60.0  # a bound, not an expectation: the machine may be busy
FILES_MAX: Final = 256
CROWD: Final = 300  # more than the node may have files
CONFIG: Final = """
[gateway.exmp]
tls = "127.0.0.1:0"
[gateway.emm]
quic = "127.0.0.1:0"
[gateway.coaty]
namespace = "plant"
"""


@contextmanager
def node_with_all_ports(directory: Path, files_max: int = FILES_MAX) -> Iterator[RunningNode]:
    file = directory / "weft.toml"
    file.write_text(CONFIG)
    flags = ("--config", str(file), "--ca-listen", "127.0.0.1:0")
    with up(directory / "a", *flags, files_max=files_max) as node:
        yield node


def ports_of(node: RunningNode) -> dict[str, int]:
    coaty = next(each for each in str(node.ready["gateways"]).split(", ") if each.startswith("coaty"))
    places = {"grpc": node.grpc, "admin": node.admin, "ca": str(node.ready["ca"]), "exmps": node.gateway("exmps")}
    return {name: int(place.rpartition(":")[2]) for name, place in places.items()} | {"coaty": int(coaty.split("/")[4])}


@contextmanager
def crowd(port: int, size: int = CROWD) -> Iterator[list[socket.socket]]:
    """Connections that say nothing. Those that are hung up on do not come again."""
    with ExitStack() as stack, room_for(2 * size):
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(size)]


@contextmanager
def room_for(files: int) -> Iterator[None]:
    """Of ours, not the node's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, max(soft, len(list(Path("/proc/self/fd").iterdir())) + 5 * files))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected_to(port: int) -> set[str]:
    """Local addresses of connections of this machine that stand."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}


def trusting(node: RunningNode) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=node.context.tls_root)


def open_files(node: RunningNode) -> int:
    return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))


def refused(node: RunningNode, port: str) -> float:
    lines = (line for line in node.metrics().splitlines() if line.startswith("weft_connections_refused_total{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if f'port="{port}"' in line)


def check_health(node: RunningNode) -> None:
    """One attempt each: health is answered always."""
    with urlopen(f"http://{node.admin}/healthz", timeout=WAIT_S) as answer:
        assert answer.read() == b"ok\n"
    with urlopen(f"http://{node.admin}/readyz", timeout=WAIT_S) as answer:
        assert json.load(answer) == {"ready": True, "reasons": []}
    with urlopen(f"https://{node.ready['ca']}/health", timeout=WAIT_S, context=trusting(node)) as answer:
        assert json.load(answer) == {"status": "ok"}


async def be_served(node: RunningNode, payload: bytes) -> None:
    """As an honest caller of each kind, from the address that the crowd comes from."""
    async with asyncio.timeout(WAIT_S):
        async with node.client() as client:
            await client.publish("plant.temp", payload)
        async with exmp.connect(node.gateway("exmps"), tls=trusting(node)) as caller:
            await caller.call("authenticate", {"key": node.context.token})
            assert await caller.call("publish", {"topic": "plant.temp", "payload": "21"}) is not None
        root = Path(str(node.context.tls_root)).read_bytes()
        async with foreign_client(int(node.gateway("emm-quic").rpartition(":")[2]), root) as device:
            device.send(b"no packet")


async def test_idle_crowds_at_all_ports_neither_end_the_node_nor_keep_others_out(tmp_path: Path) -> None:
    with node_with_all_ports(tmp_path) as node, ExitStack() as crowds:
        ports = ports_of(node)
        for port in ports.values():
            crowds.enter_context(crowd(port))
        check_health(node)
        await be_served(node, b"in spite of all")
        check_health(node)
        assert open_files(node) < FILES_MAX
        for name in ports:
            assert refused(node, name) > 0, name
        shared = next(each for each in node.logged() if each["event"] == "files_shared_out")
        assert shared["allowed"] == FILES_MAX and shared["log"] >= 64
        turned = [each for each in node.logged() if each["event"] == "connections_turned_away"]
        assert {each["port"] for each in turned} == set(ports)
        assert len(turned) < 20, "a line now and then, not one for each"
        crowds.close()
        await be_served(node, b"afterwards")
        node.end_quietly()


def test_a_crowd_that_speaks_tls_to_the_ca_and_http_to_the_admin_port_does_not_stop_health(tmp_path: Path) -> None:
    """They have had their handshakes, or half a request, and then keep still."""
    with node_with_all_ports(tmp_path, 1024) as node, ExitStack() as stack, room_for(CROWD):
        context = trusting(node)
        host, _, port = str(node.ready["ca"]).rpartition(":")
        for _ in range(CROWD):
            plain = socket.create_connection((host, int(port)), WAIT_S)
            stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        host, _, port = node.admin.rpartition(":")
        for number in range(CROWD):
            half = stack.enter_context(socket.create_connection((host, int(port)), WAIT_S))
            half.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + (b"\r\n" if number % 2 else b""))
        check_health(node)
        assert refused(node, "ca") > 0 and refused(node, "admin") > 0
        node.end_quietly()


async def test_clients_that_are_in_stay_in_while_a_crowd_comes(tmp_path: Path) -> None:
    with node_with_all_ports(tmp_path) as node:
        async with (
            asyncio.timeout(WAIT_S),
            node.client() as client,
            client.subscribe("plant.temp", start="earliest") as events,
        ):
            await client.publish("plant.temp", b"before")
            port = ports_of(node)["grpc"]
            own = connected_to(port)
            with crowd(port):
                await client.publish("plant.temp", b"meanwhile")
                taken = [(await anext(aiter(events))).payload for _ in range(2)]
                assert own and own <= connected_to(port), "the connections are the same as before"
        assert taken == [b"before", b"meanwhile"]
        node.end_quietly()


async def test_silent_streams_with_a_clients_certificate_take_no_links(tmp_path: Path) -> None:
    """They are refused at once, before a word, and peers find all places free."""

    with up(tmp_path / "a") as node:
        context = node.context
        tls = trusting(node)
        tls.load_cert_chain(str(context.tls_certificate), str(context.tls_key))
        host, _, port = node.grpc.rpartition(":")
        channel = Channel(host, int(port), ChannelSettings(), lambda: ChannelTls(for_http2(tls), host))
        try:
            for path in (EVENT_STREAM, CONTROL_STREAM):
                calls = [await channel.call(path) for _ in range(100)]
                for call in calls:
                    with pytest.raises(RpcError, match=r"certificate is of client .*, not of a node") as ended:
                        await call.read()
                    assert ended.value.status is StatusCode.UNAUTHENTICATED
        finally:
            channel.close()
            await channel.wait_closed()
        node.end_quietly()


def test_a_node_that_may_open_too_few_files_says_so_and_does_not_start(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh", *COMMAND, "up", "--data", str(tmp_path / "a")]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "WEFT_CONFIG_DIR": str(tmp_path / "config")},
    )
    assert ended.returncode != 0
    assert "this process may have 100 files open" in ended.stderr.replace("\n", " ")
    assert "raise the limit" in ended.stderr.replace("\n", " ")
