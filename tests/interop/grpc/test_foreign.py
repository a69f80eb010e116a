"""gRPC of Go, Java and Node.js, each as a client of ours and as a server for ours, plain and with mTLS."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.interop.grpc import foreign
from tests.interop.grpc.echo import check_all, handlers
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import channel_to, on_loop, serving

# TLS is the more difficult half. All of it in the soak.
CASES = [(language, True) for language in foreign.LANGUAGES] + [("go", False)]
if "WEFT_SOAK" in os.environ:
    CASES += [("java", False), ("js", False)]
IDS = [f"{language}-{'mtls' if secured else 'plain'}" for language, secured in CASES]


@pytest.fixture(params=CASES, ids=IDS)
def case(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """A language, and whether with TLS."""
    language, secured = request.param
    if reason := foreign.unavailable(language):
        pytest.skip(reason)
    return language, secured


@on_loop("uvloop", foreign.CHECK_S_MAX)
async def test_their_client_and_our_server(case: tuple[str, bool], certificates: Certificates) -> None:
    language, secured = case

    tls = certificates.server() if secured else None
    files = certificates.here if secured else None
    async with serving(handlers(), tls=tls) as place:
        assert not await asyncio.to_thread(foreign.check, language, place.port, files)
        assert not place.reports.failed and not place.reports.reasons


@on_loop("uvloop", foreign.CHECK_S_MAX)
async def test_our_client_and_their_server(case: tuple[str, bool], certificates: Certificates) -> None:
    language, secured = case
    with foreign.serving(language, certificates.here if secured else None) as port:
        async with channel_to("127.0.0.1", port, tls=certificates.client() if secured else None) as channel:
            assert not await check_all(channel)
