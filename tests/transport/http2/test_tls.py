"""TLS between two sides that agree, disagree, or speak something else. Both hear why, and nothing is left behind."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import (
    ECHO,
    ECHOING,
    closed_port,
    echo,
    on_both_loops,
    raw_peer,
    raw_server,
    serving,
    until,
)
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.channel import Channel, ChannelSettings, ChannelTls
from weft.transport.grpc.server import ServerSettings
from weft.transport.http2 import tls as tls_module
from weft.wire.rpc import RpcError, StatusCode

HOST = "127.0.0.1"
QUICK = ServerSettings(handshake_timeout_s=0.2)
SMALL = b"hello"


async def refusal(channel: Channel) -> str:
    """Why there is no connection."""
    with pytest.raises(RpcError) as found:
        await channel.unary(ECHO, SMALL)
    assert found.value.status is StatusCode.UNAVAILABLE
    assert found.value.details.endswith(f"address {HOST}:{channel._port})")
    return found.value.details


def connected(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    """Blocking, for a thread."""
    plain = socket.create_connection((HOST, port))
    plain.settimeout(30)
    return context.wrap_socket(plain, server_hostname="localhost", session=session)


# --- certificates -----------------------------------------------------------------------------------------------------


@on_both_loops
async def test_both_sides_see_what_the_other_showed(certificates: Certificates) -> None:
    shown: list[bytes | None] = []

    async def look(call: ServerCall) -> None:
        shown.append(call.certificate)
        await echo(call)

    async with serving({ECHO: look}, tls=certificates.server()) as place:
        async with place.channel(tls=certificates.client()) as channel:
            assert await channel.unary(ECHO, b"x" * 1_000_000) == b"x" * 1_000_000
            assert channel.certificate == certificates.der("server")
        assert shown == [certificates.der("client")]
        assert channel.certificate is None


@on_both_loops
async def test_a_certificate_may_be_optional(certificates: Certificates) -> None:
    shown: list[bytes | None] = []

    async def look(call: ServerCall) -> None:
        shown.append(call.certificate)

    async with serving({ECHO: look}, tls=certificates.server(ssl.CERT_OPTIONAL)) as place:
        for context in (certificates.client(None), certificates.client()):
            async with place.channel(tls=context) as channel:
                call = await channel.call(ECHO)
                assert await call.read() is None
        assert shown == [None, certificates.der("client")]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@on_both_loops
async def test_a_client_without_a_certificate_hears_that_it_needs_one(
    certificates: Certificates, version: ssl.TLSVersion
) -> None:
    """With TLS 1.3 the refusal comes after the client has ended its handshake."""
    context = certificates.client(None)
    context.maximum_version = version
    async with serving(ECHOING, tls=certificates.server()) as place, place.channel(tls=context) as channel:
        wanted = "certificate required" if version is ssl.TLSVersion.TLSv1_3 else "handshake failure"
        assert (await refusal(channel)).startswith(f"the peer refuses TLS with this side: {wanted}")
        await until(lambda: place.reports.refused)
        assert place.reports.refused == [(HOST, "TLS failed: peer did not return a certificate")]


@on_both_loops
async def test_a_certificate_of_another_ca_is_refused_on_either_side(
    certificates: Certificates, tmp_path: Path
) -> None:
    other = Certificates(tmp_path)
    stranger = certificates.client(None)
    stranger.load_cert_chain(other.here / "client.pem")
    async with serving(ECHOING, tls=certificates.server()) as place:
        async with place.channel(tls=stranger) as channel:
            assert "the peer refuses TLS with this side: unknown ca" in await refusal(channel)
        async with place.channel(tls=other.client()) as channel:
            assert "the peer's certificate is not valid: " in await refusal(channel)
        await until(lambda: len(place.reports.refused) == 2)
        theirs, ours = place.reports.reasons
        assert theirs.startswith("the peer's certificate is not valid: ")
        assert ours == "the peer refuses TLS with this side: unknown ca"


@on_both_loops
async def test_a_certificate_that_is_over_or_for_another_name_is_refused(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.make("client", begin_s=-10 * 86_400)
    async with serving(ECHOING, tls=certificates.server()) as place:
        async with place.channel(tls=certificates.client()) as channel:
            assert "the peer refuses TLS with this side: certificate expired" in await refusal(channel)
        good = certificates.client("server")
        async with place.channel(tls=lambda: ChannelTls(good, "elsewhere")) as channel:
            assert "Hostname mismatch" in await refusal(channel)
        await until(lambda: len(place.reports.refused) == 2)
        assert "certificate has expired" in place.reports.reasons[0]


@on_both_loops
async def test_new_certificates_count_from_the_next_connection_on(tmp_path: Path) -> None:
    """And streams that are open do not notice."""
    certificates = Certificates(tmp_path)
    shown: list[bytes | None] = []

    async def look(call: ServerCall) -> None:
        shown.append(call.certificate)
        await echo(call)

    async with serving({ECHO: look}, tls=certificates.server) as place:
        first = Channel(HOST, place.port, ChannelSettings(), lambda: ChannelTls(certificates.client(), "localhost"))
        call = await first.call(ECHO)
        await call.write(b"one")
        assert await call.read() == b"one"
        before = certificates.der("server")
        certificates.make("server")
        certificates.make("client")
        async with place.channel(tls=certificates.client()) as second:
            assert await second.unary(ECHO, SMALL) == SMALL
            assert second.certificate == certificates.der("server")
        await call.write(b"two")
        assert await call.read() == b"two"
        assert first.certificate == before != certificates.der("server")
        assert len(set(shown)) == 2
        first.close()
        await first.wait_closed()


@on_both_loops
async def test_a_server_without_a_context_refuses_and_goes_on(certificates: Certificates) -> None:
    asked = 0

    def context() -> ssl.SSLContext:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("no such file: server.pem")
        return certificates.server()

    async with serving(ECHOING, tls=context) as place, place.channel(tls=certificates.client()) as channel:
        assert "the peer hung up during the TLS handshake" in await refusal(channel)
        assert await channel.unary(ECHO, SMALL) == SMALL
        assert place.reports.refused == [(HOST, "no TLS context: no such file: server.pem")]
        assert place.server.connections == 1


# --- something else than TLS ------------------------------------------------------------------------------------------


@on_both_loops
async def test_plain_text_on_a_tls_port_is_told_to_both_sides(certificates: Certificates) -> None:
    async with serving(ECHOING, tls=certificates.server()) as place:
        async with place.channel() as channel:
            assert "the peer closed the connection and said nothing: it may want TLS" in await refusal(channel)
        async with raw_peer(place.port) as peer:
            peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await peer.until_closed()
        await until(lambda: len(place.reports.refused) == 2)
        assert place.reports.reasons == ["the peer does not speak TLS", "the peer speaks plain HTTP, not TLS"]


@on_both_loops
async def test_tls_on_a_plain_port_is_told_to_both_sides(certificates: Certificates) -> None:
    async with serving(ECHOING) as place, place.channel(tls=certificates.client()) as channel:
        assert "the peer does not speak TLS" in await refusal(channel)
        await until(lambda: place.reports.dropped)
        assert "the peer speaks TLS" in place.reports.dropped[0][1]


@on_both_loops
async def test_http_1_within_tls_is_told_why(certificates: Certificates) -> None:
    context = certificates.client()
    context.set_alpn_protocols(["http/1.1"])
    async with serving(ECHOING, tls=certificates.server()) as place:
        async with raw_peer(place.port, context) as peer:
            peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"this is not HTTP/2" in await peer.until_closed()
        await until(lambda: place.reports.dropped)


@on_both_loops
async def test_garbage_in_a_connection_ends_it(certificates: Certificates) -> None:
    """Bytes that are no record, after the handshake, from somebody on the way."""

    async def meddle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoil: list[bool]) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(bytes([data[0], *data[1:-1], data[-1] ^ 1]) if spoil else data)
        except ConnectionError:
            pass
        writer.close()

    async with serving(ECHOING, tls=certificates.server()) as place:
        spoil: list[bool] = []
        ways: list[asyncio.Task[None]] = []

        async def on_the_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            to_server = await asyncio.open_connection(HOST, place.port)
            ways.append(asyncio.create_task(meddle(to_server[0], writer, [])))
            await meddle(reader, to_server[1], spoil)

        between = await asyncio.start_server(on_the_way, HOST, 0)
        channel = Channel(
            HOST,
            between.sockets[0].getsockname()[1],
            ChannelSettings(),
            lambda: ChannelTls(certificates.client(), "localhost"),
        )
        assert await channel.unary(ECHO, SMALL) == SMALL
        spoil.append(True)
        with pytest.raises(RpcError, match="refuses TLS with this side: bad record mac") as found:
            await channel.unary(ECHO, SMALL)
        assert found.value.status is StatusCode.UNAVAILABLE
        await until(lambda: place.server.connections == 0)
        assert place.reports.dropped == [(HOST, "TLS failed: decryption failed or bad record mac")]
        channel.close()
        await channel.wait_closed()
        between.close()
        await asyncio.wait(ways)


# --- slow and silent peers --------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_handshake_has_a_deadline(certificates: Certificates) -> None:
    """Whether nothing comes, or a byte now and then."""
    async with serving(ECHOING, QUICK, certificates.server()) as place:
        async with raw_peer(place.port) as silent, raw_peer(place.port) as slow:
            await until(lambda: place.server.connections == 2)
            sending = asyncio.create_task(drip(slow.writer, b"\x16\x03\x01\x02\x00" + bytes(512)))
            await silent.until_closed()
            await slow.until_closed()
            sending.cancel()
        await until(lambda: place.server.connections == 0)
        assert place.reports.refused == [(HOST, "the TLS handshake took too long (limit 0.2 s)")] * 2


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    for at in range(len(data)):
        writer.write(data[at : at + 1])
        await asyncio.sleep(0.01)


@on_both_loops
async def test_a_server_that_does_not_shake_hands_is_given_up(certificates: Certificates) -> None:
    async def say_nothing(peer: object) -> None:
        await asyncio.sleep(0.5)

    settings = ChannelSettings(connect_timeout_s=0.1)
    async with raw_server(say_nothing) as port:
        channel = Channel(HOST, port, settings, lambda: ChannelTls(certificates.client(), "localhost"))
        with pytest.raises(RpcError, match=r"nobody answers|took too long"):
            await channel.unary(ECHO, SMALL)
        channel.close()
        await channel.wait_closed()


@on_both_loops
async def test_who_hangs_up_during_the_handshake_is_counted(certificates: Certificates) -> None:
    async with serving(ECHOING, tls=certificates.server()) as place:
        async with raw_peer(place.port) as peer:
            peer.send(b"\x16\x03\x01")
        await until(lambda: place.reports.refused)
        assert place.reports.refused == [(HOST, "the peer hung up during the TLS handshake")]
        assert place.server.connections == 0


# --- the end ----------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_a_goodbye_is_answered_by_a_goodbye(certificates: Certificates) -> None:
    """``unwrap`` ends well only if the other side's goodbye came."""
    async with serving(ECHOING, tls=certificates.server()) as place:

        def visit() -> None:
            with connected(place.port, certificates.client()) as secure:
                assert secure.selected_alpn_protocol() == "h2"
                assert secure.recv(1 << 16)[3] == 4, "SETTINGS"
                secure.unwrap()

        await asyncio.to_thread(visit)
        await until(lambda: place.server.connections == 0)
        assert place.reports.reasons == []


@on_both_loops
async def test_a_peer_that_just_hangs_up_is_gone(certificates: Certificates) -> None:
    """Without a goodbye, with a call open."""
    left = asyncio.Event()

    async def wait(call: ServerCall) -> None:
        try:
            await call.read()
        finally:
            left.set()

    async with serving({ECHO: wait}, tls=certificates.server()) as place:
        channel = Channel(HOST, place.port, ChannelSettings(), lambda: ChannelTls(certificates.client(), "localhost"))
        call = await channel.call(ECHO)
        await until(lambda: place.server.calls == 1)
        transport = (await channel.connect()).transport
        assert isinstance(transport, tls_module.TlsTransport) and transport._below is not None
        transport._below.abort()
        await left.wait()
        with pytest.raises(RpcError) as found:
            await call.read()
        assert found.value.status is StatusCode.UNAVAILABLE
        await until(lambda: place.server.connections == 0)
        channel.close()
        await channel.wait_closed()


@on_both_loops
async def test_what_comes_after_the_end_is_ignored(certificates: Certificates) -> None:
    """The server has said goodbye, the client has not heard of it, and goes on sending."""
    async with serving(ECHOING, tls=certificates.server()) as place:

        def visit() -> bytes:
            with connected(place.port, certificates.client()) as secure:
                secure.sendall(b"this is no HTTP/2 at all, and goes on for a while: " + bytes(1 << 20))
                received = b""
                while data := secure.recv(1 << 16):
                    received += data
                return received

        assert b"this is not HTTP/2" in await asyncio.to_thread(visit)
        await until(lambda: place.server.connections == 0)


# --- what OpenSSL's own client can do, and Python's cannot ------------------------------------------------------------

OUR_SETTINGS = b"\x04\x00\x00\x00\x00\x00"  # a frame without flags for the connection
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


async def s_client(port: int, certificates: Certificates, *options: str) -> asyncio.subprocess.Process:
    here = certificates.here
    command = ["openssl", "s_client", "-connect", f"{HOST}:{port}", "-CAfile", f"{here}/root.pem"]
    command += [
        "-cert",
        f"{here}/client.crt",
        "-key",
        f"{here}/client.key",
        "-cert_chain",
        f"{here}/client.crt",
        *options,
    ]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)


async def read_until(process: asyncio.subprocess.Process, text: bytes) -> bool:
    """Whether it came before the end."""
    assert process.stdout is not None
    found = b""
    while text not in found:
        data = await process.stdout.read(1 << 16)
        if not data:
            return False
        found += data
    return True


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.communicate()


@needs_openssl
async def test_nothing_is_negotiated_again(certificates: Certificates) -> None:
    async with serving(ECHOING, tls=certificates.server()) as place:
        process = await s_client(place.port, certificates, "-tls1_2")
        assert process.stdin is not None
        assert await read_until(process, OUR_SETTINGS)
        process.stdin.write(b"R\n")
        await process.stdin.drain()
        assert await read_until(process, b"no renegotiation")
        await end(process)


@needs_openssl
async def test_new_keys_are_taken_but_not_for_ever(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs us more than it costs its sender."""
    monkeypatch.setattr(tls_module, "EMPTY_BYTES_MAX", 200)  # a KeyUpdate has 27

    async with serving(ECHOING, tls=certificates.server()) as place:
        process = await s_client(place.port, certificates, "-tls1_3")
        assert process.stdin is not None
        assert await read_until(process, OUR_SETTINGS)
        with suppress(ConnectionError):  # it ends when the server does
            for count in range(1, 11):
                process.stdin.write(b"K\n")
                await process.stdin.drain()
                if not await read_until(process, b"KEYUPDATE"):
                    break
                assert count > 3 or place.server.connections == 1
        await until(lambda: place.reports.reasons)
        assert "TLS records without content (limit bytes 200)" in place.reports.reasons[0]
        await end(process)


async def test_no_session_is_resumed(certificates: Certificates) -> None:
    """A certificate that is no longer good would be good for as long as a session."""

    async with serving(ECHOING, tls=certificates.server()) as place:
        context = certificates.client()
        context.options &= ~ssl.OP_NO_TICKET

        def visit(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
            with connected(place.port, context, session) as secure:
                secure.recv(9)
                assert not secure.session_reused
                return secure.session

        session = await asyncio.to_thread(visit, None)
        await asyncio.to_thread(visit, session)


@on_both_loops
async def test_nobody_there_is_told_as_without_tls(certificates: Certificates) -> None:
    with closed_port() as port:
        channel = Channel(HOST, port, ChannelSettings(), lambda: ChannelTls(certificates.client(), "localhost"))
        assert await refusal(channel) == f"cannot connect: Connection refused (address {HOST}:{port})"
