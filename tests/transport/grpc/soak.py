"""Our gRPC for a long time, with everything that can happen at random: ``python -m tests.transport.grpc.soak``.

One process serves, one calls with our client, one with grpcio: plain and with TLS. Calls end well, fail, are cancelled,
or their connection is; servers stop and come back; some peers send garbage. At the end nothing may be left: no task, no
descriptor, no connection, no memory.

    python -m tests.transport.grpc.soak --seconds 3600 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import uvloop

from tests.interop.grpc.echo import PATH, handlers
from tests.interop.grpc.grpcio_peer import grpcio_channel
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import Reports
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.grpc.server import Handler, Server, ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.transport.http2.tls import for_http2
from weft.wire.http2 import CLIENT_SETTINGS, Http2Settings
from weft.wire.rpc import RpcError, StatusCode

ROOT = Path(__file__).parents[3]
HOST = "127.0.0.1"
STATE = "/soak/State"
ACTORS = 16
THEIR_ACTORS = 4
WARM_PART = 0.25  # of the time, before memory is measured: buffers and caches have their size then
MEMORY_GROWTH_BYTES_MAX = 48 << 20
CALL_TIMEOUT_S = 120.0  # of a call that must end well
SERVER_SETTINGS = ServerSettings(
    EndpointSettings(Http2Settings(), keepalive_s=5.0), handshake_timeout_s=2.0, first_request_timeout_s=2.0
)
CLIENT_SETTINGS_HERE = ChannelSettings(EndpointSettings(CLIENT_SETTINGS, keepalive_s=5.0))


def figures() -> dict[str, int]:
    """Of this process."""
    gc.collect()
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * 4096,
    }


# --- the server -------------------------------------------------------------------------------------------------------


async def serve(here: Path, seed: int) -> None:
    """On three ports: plain, TLS, and one that stops and comes back. They are printed."""
    reports = Reports()
    servers: list[Server] = []

    async def state(call: ServerCall) -> None:
        told = figures() | {
            "connections": sum(each.connections for each in servers),
            "calls": sum(each.calls for each in servers),
            "dropped": len(reports.reasons),
        }
        failed = [f"{path}: {error!r}" for path, error in reports.failed]
        call.write_nowait(json.dumps(told | {"failed": failed}).encode())
        reports.refused.clear()
        reports.dropped.clear()

    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(here / "server.pem")
        made.load_verify_locations(here / "root.pem")
        made.verify_mode = ssl.CERT_OPTIONAL
        return for_http2(made)

    methods: dict[str, Handler] = {**handlers(), STATE: state}
    shared_context = context()
    plain = Server(methods, SERVER_SETTINGS, reports)
    secure = Server(methods, SERVER_SETTINGS, reports, lambda: shared_context)
    passing = Server(methods, SERVER_SETTINGS, reports)
    servers += [plain, secure, passing]
    ports = [each.bind(HOST, 0) for each in servers]
    for each in servers:
        await each.start()
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    chance = Random(seed)  # noqa: S311
    reading = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not reading.done():
        await asyncio.wait([reading], timeout=chance.uniform(0.5, 3.0))
        await servers[2].stop(chance.choice([0.0, 0.05, 0.5]))
        servers[2] = Server(methods, SERVER_SETTINGS, reports)
        servers[2].bind(HOST, ports[2])
        await servers[2].start()
    for each in servers:
        await each.stop(0.0)


# --- our client -------------------------------------------------------------------------------------------------------


class Actor:
    """Calls at random on channels that it shares with others."""

    def __init__(self, play: Play, chance: Random) -> None:
        self._play = play
        self._chance = chance
        self._deeds: list[Callable[[], Awaitable[None]]] = [
            self.ask,
            self.ask,
            self.chat,
            self.download,
            self.upload,
            self.be_late,
            self.fail,
            self.give_up,
            self.break_connection,
            self.close_channel,
            self.send_garbage,
        ]

    async def act(self, end_s: float) -> None:
        while time.monotonic() < end_s:
            deed = self._chance.choice(self._deeds)
            try:
                await deed()
                self._play.done[deed.__name__] += 1
            except RpcError as error:
                # Others break connections, close channels and stop servers.
                allowed = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
                if error.status not in allowed:
                    raise AssertionError(f"{deed.__name__}: {error.status.name} {error.details}") from error
                self._play.done[f"{deed.__name__} failed"] += 1
                await asyncio.sleep(0.01)

    def channel(self) -> Channel:
        return self._chance.choice(self._play.channels)

    def message(self) -> bytes:
        size = self._chance.choice([0, 10, 200, 5000, 70_000, 300_000])
        if self._chance.random() < 0.01:
            size = 5_000_000
        return bytes(size)

    async def ask(self) -> None:
        message = self.message()
        assert await self.channel().unary(PATH + "Unary", message, timeout_s=CALL_TIMEOUT_S) == message

    async def chat(self) -> None:
        call = await self.channel().call(PATH + "Chat", timeout_s=CALL_TIMEOUT_S)
        try:
            for _ in range(self._chance.randrange(30)):
                message = self.message()
                await call.write(message)
                if self._chance.random() < 0.7:
                    assert await call.read() == message
                else:
                    return  # and leave the rest to ``cancel``
            call.end()
            assert await call.read() is None
        finally:
            call.cancel()

    async def download(self) -> None:
        count = self._chance.randrange(200)
        call = await self.channel().call(PATH + "Down", timeout_s=CALL_TIMEOUT_S)
        try:
            call.write_nowait(b"%d %d" % (count, self._chance.choice([10, 1000, 50_000])))
            call.end()
            wanted = count if self._chance.random() < 0.5 else self._chance.randrange(count + 1)
            for _ in range(wanted):
                assert await call.read() is not None
                if self._chance.random() < 0.02:
                    await asyncio.sleep(0.01)
        finally:
            call.cancel()

    async def upload(self) -> None:
        call = await self.channel().call(PATH + "Up", timeout_s=CALL_TIMEOUT_S)
        try:
            total = 0
            count = self._chance.randrange(50)
            for _ in range(count):
                message = self.message()
                total += len(message)
                await call.write(message)
                if self._chance.random() < 0.01:
                    return
            call.end()
            assert await call.read() == b"%d %d" % (count, total)
        finally:
            call.cancel()

    async def be_late(self) -> None:
        try:
            await self.channel().unary(PATH + "Slow", b"x", timeout_s=self._chance.uniform(0.0, 0.1))
        except RpcError as error:
            if error.status is not StatusCode.DEADLINE_EXCEEDED:
                raise
        else:
            raise AssertionError("it was not slow")

    async def fail(self) -> None:
        method = self._chance.choice(["Fail", "Nothing"])
        try:
            await self.channel().unary(PATH + method, self.message(), timeout_s=CALL_TIMEOUT_S)
        except RpcError as error:
            if error.status not in (StatusCode.NOT_FOUND, StatusCode.UNIMPLEMENTED):
                raise
        else:
            raise AssertionError("it did not fail")

    async def give_up(self) -> None:
        """A task that is cancelled at any moment."""
        deed = self._chance.choice([self.ask, self.chat, self.download, self.upload])
        doing = asyncio.ensure_future(deed())
        await asyncio.sleep(self._chance.choice([0.0, 0.0, 0.001, 0.02]))
        doing.cancel()
        with suppress(asyncio.CancelledError):
            await doing

    async def break_connection(self) -> None:
        if self._chance.random() < 0.3:
            endpoint = self.channel()._current()
            if endpoint is not None:
                endpoint.abort("the soak wants it")

    async def close_channel(self) -> None:
        if self._chance.random() < 0.3:
            place = self._chance.randrange(len(self._play.channels))
            old = self._play.channels[place]
            self._play.channels[place] = self._play.make_channel(place)
            old.close()
            await old.wait_closed()

    async def send_garbage(self) -> None:
        port = self._chance.choice(self._play.ports[:2])
        with socket.socket() as peer:
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, (HOST, port))
            data = self._chance.choice([b"", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01\x02", self._chance.randbytes(5000)])
            with suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(peer, data)
            await asyncio.sleep(self._chance.choice([0.0, 0.01, 0.1]))
            if self._chance.random() < 0.5:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset


class Play:
    """What actors share."""

    def __init__(self, ports: list[int], certificates: Certificates) -> None:
        self.ports = ports
        self.done: Counter[str] = Counter()
        shown, hidden = certificates.client(), certificates.client(None)
        self._contexts = [None, shown, hidden, None]
        self.channels = [self.make_channel(place) for place in range(len(self._contexts))]

    def make_channel(self, place: int) -> Channel:
        context = self._contexts[place]
        port = self.ports[(0, 1, 1, 2)[place]]
        tls = None if context is None else (lambda: ChannelTls(context, "localhost"))
        return Channel(HOST, port, CLIENT_SETTINGS_HERE, tls)

    async def close(self) -> None:
        for channel in self.channels:
            channel.close()
            await channel.wait_closed()


async def state_of(port: int) -> dict[str, Any]:
    channel = Channel(HOST, port, ChannelSettings())
    try:
        found: dict[str, Any] = json.loads(await channel.unary(STATE, b"", timeout_s=CALL_TIMEOUT_S))
        return found
    finally:
        channel.close()
        await channel.wait_closed()


async def act_all(play: Play, chance: Random, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(ACTORS):
            group.create_task(Actor(play, Random(chance.random())).act(end_s))  # noqa: S311


async def soak(ports: list[int], certificates: Certificates, seed: int, seconds: float) -> dict[str, Any]:
    """Play it; what was done, and what was left. Raise AssertionError if that is too much."""
    wrong: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(str(context)))
    chance = Random(seed)  # noqa: S311
    play = Play(ports, certificates)
    begin = figures()
    await act_all(play, chance, seconds * WARM_PART)
    warm, server_warm = figures(), await state_of(ports[0])
    await act_all(play, chance, seconds * (1 - WARM_PART))
    await play.close()
    await asyncio.sleep(0.1)
    end = figures()
    told = {"seed": seed, "done": dict(play.done), "begin": begin, "warm": warm, "end": end, "server warm": server_warm}
    assert not wrong, wrong
    assert end["tasks"] == begin["tasks"], told
    assert end["descriptors"] <= begin["descriptors"] + 2, told  # epoll of a loop that was just begun
    assert end["memory"] - warm["memory"] < MEMORY_GROWTH_BYTES_MAX, told
    return told


async def check_server(port: int, told: dict[str, Any]) -> None:
    """After everybody has left. Peers that did not say goodbye are noticed after some seconds."""
    end_s = time.monotonic() + 60.0
    while (left := await state_of(port))["connections"] > 1 and time.monotonic() < end_s:
        await asyncio.sleep(0.1)
    told["server end"] = left
    warm = told["server warm"]
    assert not left["failed"], told
    assert left["connections"] == 1 and left["calls"] == 1, told
    assert left["memory"] - warm["memory"] < MEMORY_GROWTH_BYTES_MAX, told
    # Of a server alone: its readers of input and of connections, and this call.
    assert left["tasks"] <= 4, told
    assert left["descriptors"] <= 20, told


# --- grpcio -----------------------------------------------------------------------------------------------------------


async def call_with_grpcio(ports: list[int], certificates: Certificates | None, seed: int, seconds: float) -> int:
    """How many calls were made."""
    chance = Random(seed)  # noqa: S311
    end_s = time.monotonic() + seconds
    count = 0

    async def act(channel: Any) -> None:
        nonlocal count
        while time.monotonic() < end_s:
            count += 1
            message = bytes(chance.choice([0, 100, 5000, 100_000]))
            deed = chance.randrange(6)
            if deed == 0:
                assert await channel.unary_unary(PATH + "Unary")(message, timeout=CALL_TIMEOUT_S) == message
            elif deed == 1:
                call = channel.stream_stream(PATH + "Chat")()
                for _ in range(chance.randrange(10)):
                    await call.write(message)
                    assert await call.read() == message
                if chance.random() < 0.5:
                    call.cancel()
                else:
                    await call.done_writing()
                    assert await call.read() is grpc.aio.EOF
            elif deed == 2:
                call = channel.unary_stream(PATH + "Down")(b"%d 1000" % chance.randrange(100))
                async for _ in call:
                    if chance.random() < 0.02:
                        call.cancel()
                        break
            elif deed == 3:
                with suppress(grpc.aio.AioRpcError):
                    await channel.unary_unary(PATH + "Slow")(message, timeout=chance.uniform(0.001, 0.1))
            elif deed == 4:
                doing = asyncio.ensure_future(channel.unary_unary(PATH + "Slow")(message))
                await asyncio.sleep(chance.uniform(0.0, 0.02))
                doing.cancel()
                with suppress(asyncio.CancelledError):
                    await doing
            else:
                with suppress(grpc.aio.AioRpcError):
                    await channel.unary_unary(PATH + "Fail")(message)

    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpcio_channel(ports[0]))]
        channels.append(await stack.enter_async_context(grpcio_channel(ports[1], certificates)))
        async with asyncio.TaskGroup() as group:
            for channel in channels * THEIR_ACTORS:
                group.create_task(act(channel))
    return count


# --- all of it --------------------------------------------------------------------------------------------------------


class Files:
    """Certificates that another process made."""

    def __init__(self, here: Path) -> None:
        self.here = here

    def read(self, file: str) -> bytes:
        return (self.here / file).read_bytes()


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Everything; what was done and what was left. Raise AssertionError if that is too much."""
    module = [sys.executable, "-m", "tests.transport.grpc.soak", "--seed", str(seed), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as place:
        certificates = Certificates(Path(place))
        server = [*module, "--serve", place]
        with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as serving:
            assert serving.stdin is not None and serving.stdout is not None
            try:
                ports = json.loads(serving.stdout.readline())
                theirs = [*module, "--grpcio", place, "--ports", json.dumps(ports)]
                with subprocess.Popen(theirs, stdout=subprocess.PIPE, text=True, cwd=ROOT) as calling:
                    told = uvloop.run(soak(ports, certificates, seed, seconds))
                    output, _ = calling.communicate(timeout=300)
                    assert calling.returncode == 0, output
                    told["grpcio calls"] = int(output)
                uvloop.run(check_server(ports[0], told))
            finally:
                serving.stdin.close()
                assert serving.wait(60) == 0
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", default="")
    parser.add_argument("--grpcio", default="")
    parser.add_argument("--ports", default="[]")
    arguments = parser.parse_args()
    if arguments.serve:
        uvloop.run(serve(Path(arguments.serve), arguments.seed))
    elif arguments.grpcio:
        ports = json.loads(arguments.ports)
        files: Any = Files(Path(arguments.grpcio))
        count = asyncio.run(call_with_grpcio(ports, files, arguments.seed, arguments.seconds))
        sys.stdout.write(f"{count}\n")
    else:
        sys.stdout.write(json.dumps(run(arguments.seconds, arguments.seed), indent=1) + "\n")


if __name__ == "__main__":
    main()
