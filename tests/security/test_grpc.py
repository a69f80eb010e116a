"""gRPC takes our certificates on both ends, and tells who called: what the node's wiring will rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.security import pki
from tests.security.pki import BILLING, NODE_A
from weft.security import (
    Authority,
    CertificateRefused,
    Credentials,
    check_node,
    read_chain_untrusted,
    read_identity_untrusted,
)

WHO = "/test.Test/Who"


def channel_credentials(found: Credentials | None, root_pem: bytes) -> grpc.ChannelCredentials:
    if found is None:
        return grpc.ssl_channel_credentials(root_pem)
    return grpc.ssl_channel_credentials(root_pem, found.key_pem.reveal(), found.chain_pem)


async def who(_: bytes, context: Any) -> bytes:
    (pem,) = context.auth_context()["x509_pem_cert"]
    return read_identity_untrusted(read_chain_untrusted(pem)[0]).uri.encode()


async def serve(found: Credentials) -> tuple[grpc.aio.Server, int]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Test", {"Who": grpc.unary_unary_rpc_method_handler(who)}),)
    )
    pair = (found.key_pem.reveal(), found.chain_pem)
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], found.root_pem, require_client_auth=True)
    )
    await server.start()
    return server, port


async def ask(port: int, credentials: grpc.ChannelCredentials) -> str:
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        answer: bytes = await channel.unary_unary(WHO)(b"", timeout=30)
        return answer.decode()


@pytest.mark.req("SEC-01")
async def test_mutual_tls_over_grpc(tmp_path: Path) -> None:
    now_s = pki.wall()
    ca = pki.authority(tmp_path, now_s=now_s - 10 * pki.DAY_S)
    other = pki.authority(tmp_path / "other", now_s=now_s)
    server, port = await serve(pki.issued(ca, now_s=now_s))
    try:
        for names in (NODE_A, BILLING):
            found = pki.issued(ca, names, now_s)
            assert await ask(port, channel_credentials(found, ca.root_pem)) == names.identity.uri
        for refused in (
            channel_credentials(None, ca.root_pem),
            channel_credentials(pki.issued(other, now_s=now_s), ca.root_pem),
            channel_credentials(pki.issued(ca, now_s=now_s - 2 * pki.DAY_S), ca.root_pem),
            channel_credentials(pki.issued(ca, now_s=now_s), other.root_pem),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(port, refused)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await server.stop(None)


@pytest.mark.req("SEC-01")
def test_a_node_that_says_it_is_another_is_refused(ca: Authority) -> None:
    found = pki.issued(ca)
    with pytest.raises(CertificateRefused, match="certificate is of node node-a, but its owner says it is node node-b"):
        check_node(read_identity_untrusted(found.leaf), pki.MESH, "node-b")
