"""Calls through proxies that others run: nginx and HAProxy, with TLS ended there, passed through, or without."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.grpc.echo import PATH, check_all, handlers
from tests.interop.grpc.foreign import CHECK_S_MAX
from tests.interop.grpc.grpcio_peer import grpcio_channel
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import channel_to, on_loop, play, serving
from weft.transport.grpc.channel import Channel
from weft.wire.rpc import RpcError, StatusCode

HOST = "127.0.0.1"
START_S_MAX = 30.0
LONG_MESSAGES = 12
MIB = 1 << 20

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")


def free_port() -> int:
    """For a proxy, which cannot choose one by itself. Nobody else gets it so soon: they go round."""
    with socket.create_server((HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A proxy that listens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            deadline_s = time.monotonic() + START_S_MAX
            while True:
                try:
                    socket.create_connection((HOST, port)).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline_s:
                        process.kill()
                        assert process.stdout is not None
                        raise AssertionError(process.stdout.read()) from None
                    time.sleep(0.02)
            yield
        finally:
            process.kill()  # nginx waits for calls otherwise


NGINX = """
daemon off;
master_process off;
pid {here}/nginx.pid;
error_log {here}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/f;
    uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
    client_max_body_size 0;
    keepalive_requests {requests};
    grpc_read_timeout 60s; grpc_send_timeout 60s;
    server {{
        listen {host}:{port} {listen};
        {tls}
        location / {{ grpc_pass grpc://{host}:{upstream}; }}
    }}
}}
"""


@contextmanager
def nginx(here: Path, upstream: int, certificates: Certificates | None, requests: int = 100_000) -> Iterator[int]:
    port = free_port()
    tls, listen = "", "http2"
    if certificates is not None:
        listen = "ssl http2"
        tls = f"ssl_certificate {certificates.here}/server.crt; ssl_certificate_key {certificates.here}/server.key;"
    file = here / "nginx.conf"
    names = {"here": here, "host": HOST, "port": port, "upstream": upstream, "requests": requests}
    file.write_text(NGINX.format(**names, tls=tls, listen=listen))
    with running(["nginx", "-p", str(here), "-c", str(file)], port):
        yield port


HAPROXY = """
global
    maxconn 256
defaults
    mode {mode}
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend f
    bind {host}:{port} {bind}
    default_backend b
backend b
    server s {host}:{upstream} {server}
"""


@contextmanager
def haproxy(here: Path, upstream: int, mode: str, bind: str, server: str) -> Iterator[int]:
    port = free_port()
    file = here / "haproxy.cfg"
    file.write_text(HAPROXY.format(host=HOST, port=port, upstream=upstream, mode=mode, bind=bind, server=server))
    with running(["haproxy", "-db", "-f", str(file)], port):
        yield port


async def long_streams(channel: Channel) -> None:
    """Both ways at once, 1 MB each, on several streams."""

    async def one() -> None:
        call = await channel.call(PATH + "Chat")

        async def write() -> None:
            for _ in range(LONG_MESSAGES):
                await call.write(bytes(MIB))
            call.end()

        writing = asyncio.create_task(write())
        count = 0
        while (message := await call.read()) is not None:
            assert len(message) == MIB
            count += 1
        await writing
        assert count == LONG_MESSAGES

    await asyncio.gather(*[one() for _ in range(3)])


async def check_through(port: int, certificates: Certificates | None) -> None:
    """Ours and grpcio's client."""
    tls = None if certificates is None else certificates.client(None)
    async with channel_to(HOST, port, tls=tls) as channel:
        assert not await check_all(channel)
        await long_streams(channel)
    async with grpcio_channel(port, certificates) as theirs:
        assert await theirs.unary_unary(PATH + "Unary")(bytes(MIB)) == bytes(MIB)
        assert len([each async for each in theirs.unary_stream(PATH + "Down")(b"100 10000")]) == 100


def through(start: Callable[[int], object], certificates: Certificates | None) -> None:
    """A server of ours behind a proxy; calls go to the proxy."""

    async def story() -> None:
        async with serving(handlers()) as place:
            with start(place.port) as port:  # type: ignore[attr-defined]
                await check_through(port, certificates)
            assert not place.reports.reasons and not place.reports.failed

    play(story, "uvloop", CHECK_S_MAX)


@needs_nginx
def test_nginx(tmp_path: Path) -> None:
    through(lambda upstream: nginx(tmp_path, upstream, None), None)


@needs_nginx
def test_nginx_that_ends_tls(tmp_path: Path, certificates: Certificates) -> None:
    through(lambda upstream: nginx(tmp_path, upstream, certificates), certificates)


@needs_nginx
@on_loop("uvloop", CHECK_S_MAX)
async def test_nginx_that_goes_away_after_some_calls(tmp_path: Path) -> None:
    """As it does by default after a thousand. Calls that it refuses unseen are made again."""

    async with serving(handlers()) as place:
        with nginx(tmp_path, place.port, None, requests=20) as port:
            async with channel_to(HOST, port) as channel:
                for _ in range(10):
                    asked = [channel.unary(PATH + "Unary", b"%d" % number) for number in range(30)]
                    assert await asyncio.gather(*asked) == [b"%d" % number for number in range(30)]


@needs_nginx
@on_loop("uvloop", CHECK_S_MAX)
async def test_nginx_without_a_server_behind_it(tmp_path: Path) -> None:
    with nginx(tmp_path, free_port(), None) as port:
        async with channel_to(HOST, port) as channel:
            with pytest.raises(RpcError) as found:
                await channel.unary(PATH + "Unary", b"x")
            assert found.value.status is StatusCode.UNAVAILABLE
            assert found.value.details == "the answer is HTTP status 502, not gRPC"


@needs_haproxy
def test_haproxy(tmp_path: Path) -> None:
    through(lambda upstream: haproxy(tmp_path, upstream, "http", "proto h2", "proto h2"), None)


@needs_haproxy
def test_haproxy_that_ends_tls(tmp_path: Path, certificates: Certificates) -> None:
    bind = f"ssl crt {certificates.here}/server.pem alpn h2"
    through(lambda upstream: haproxy(tmp_path, upstream, "http", bind, "proto h2"), certificates)


@needs_haproxy
@on_loop("uvloop", CHECK_S_MAX)
async def test_haproxy_that_passes_tls_on(tmp_path: Path, certificates: Certificates) -> None:
    """The server sees the client's certificate."""

    async with serving(handlers(), tls=certificates.server()) as place:
        with haproxy(tmp_path, place.port, "tcp", "", "") as port:
            async with channel_to(HOST, port, tls=certificates.client()) as channel:
                assert channel.certificate is None
                assert not await check_all(channel)
                await long_streams(channel)
                assert channel.certificate == certificates.der("server")
            async with grpcio_channel(port, certificates) as theirs:
                assert await theirs.unary_unary(PATH + "Unary")(bytes(MIB)) == bytes(MIB)
