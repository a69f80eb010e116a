"""HTTP/2 by the letter: h2spec, and load by nghttp2's h2load, against our server."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.interop.grpc.echo import PATH, handlers
from tests.interop.grpc.foreign import BUILT, CHECK_S_MAX
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import Reports, on_loop, serving
from weft.transport.grpc.calls import ServerCall
from weft.transport.grpc.server import Server, ServerSettings
from weft.transport.http2.endpoint import EndpointSettings
from weft.wire.http2 import Headers, Http2Settings
from weft.wire.http2.frames import FRAME_BYTES_LEAST

H2SPEC = BUILT / "go" / "h2spec"
HOST = "127.0.0.1"
SECURITY = pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])

PATIENCE_S = 5  # how long it waits for an answer, on a busy machine too; four of its tests wait until nothing has come
# It sends "test" as the body of a request, and expects an answer. That is no message of gRPC, so the stream is reset.
EXPECTED = {
    "Sends a DATA frame",
    "Sends a DATA frame with padding",
    "Sends a POST request",
    "Sends a POST request with trailers",
}


class AnyRequest(Server):
    """Answers every request after its end, as h2spec expects it; ours would refuse what is not gRPC at once."""

    def _begin(self, call: ServerCall, headers: Headers) -> None:
        async def answer(call: ServerCall) -> None:
            call.widen()
            while await call.read() is not None:
                pass
            call.write_nowait(b"hello")

        call.path = dict(headers)[":path"]
        call.task = asyncio.get_running_loop().create_task(self._run(call, answer))
        self._calls[call.task] = call
        call.task.add_done_callback(self._calls.pop)


@pytest.mark.skipif(not H2SPEC.exists(), reason="h2spec is not built: run `make peers`, which needs Go")
@SECURITY
@on_loop("uvloop", CHECK_S_MAX)
async def test_h2spec(secured: bool, certificates: Certificates) -> None:
    """145 tests. It takes frames for too long that are longer than by default, so those are not allowed here."""
    settings = ServerSettings(EndpointSettings(Http2Settings(frame_bytes_max=FRAME_BYTES_LEAST)))

    reports = Reports()
    context = certificates.server(ssl.CERT_OPTIONAL)
    server = AnyRequest({}, settings, reports, (lambda: context) if secured else None)
    port = server.bind(HOST, 0)
    await server.start()
    command = [str(H2SPEC), "-h", HOST, "-p", str(port), "-o", str(PATIENCE_S), *(["-t", "-k"] if secured else [])]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    await server.stop(0.0)
    failures = done.stdout.partition("Failures:")[2]
    assert set(re.findall("\u00d7 [0-9]+: (.+)", failures)) == EXPECTED, failures
    assert re.search("145 tests, 141 passed, 0 skipped, 4 failed", failures)
    assert len(reports.dropped) > 50, "each with a reason"
    assert not reports.failed


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load (nghttp2-client) is not installed")
@SECURITY
@on_loop("uvloop", CHECK_S_MAX)
async def test_h2load(secured: bool, certificates: Certificates, tmp_path: Path) -> None:
    """Many streams of many clients; each call is a unary one."""
    request = tmp_path / "request"
    request.write_bytes(b"\0\0\0\0\x64" + bytes(100))

    context = certificates.server(ssl.CERT_OPTIONAL)
    async with serving(handlers(), tls=context if secured else None) as place:
        url = f"{'https' if secured else 'http'}://{HOST}:{place.port}{PATH}Unary"
        command = ["h2load", "-n", "5000", "-c", "20", "-m", "50", "-d", str(request), url]
        command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
        )
        assert "5000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout + done.stderr
        assert "status codes: 5000 2xx" in done.stdout
        assert not place.reports.reasons and not place.reports.failed
