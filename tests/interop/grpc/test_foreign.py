"""gRPC of Go, Java and Node.js, each as a client of ours and as a server for ours, plain and with mTLS."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.grpc import foreign
from tests.interop.grpc.echo import check_all, handlers
from tests.transport.http2.certificates import Certificates
from tests.transport.http2.stories import channel_to, play, serving

SECURITY = pytest.mark.parametrize("secured", [False, True], ids=["plain", "mtls"])


@pytest.fixture(params=foreign.LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if reason := foreign.unavailable(name):
        pytest.skip(reason)
    return name


@SECURITY
def test_their_client_and_our_server(language: str, secured: bool, certificates: Certificates) -> None:
    async def story() -> None:
        tls = certificates.server() if secured else None
        async with serving(handlers(), tls=tls) as place:
            failed = await asyncio.to_thread(
                foreign.check, language, place.port, certificates.here if secured else None
            )
            assert not failed
            assert not place.reports.failed and not place.reports.refused and not place.reports.dropped

    play(story, "uvloop")


@SECURITY
def test_our_client_and_their_server(language: str, secured: bool, certificates: Certificates) -> None:
    with foreign.serving(language, certificates.here if secured else None) as port:

        async def story() -> None:
            async with channel_to("127.0.0.1", port, tls=certificates.client() if secured else None) as channel:
                assert not await check_all(channel)

        play(story, "uvloop")
