"""The CA's HTTPS service and the client that enrols: over real sockets, against each other and against httpx."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from tests.security import pki
from tests.security.pki import BILLING, NODE_A
from weft.errors import UsageError, WeftError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security import (
    Authority,
    CertificateRefused,
    CertificateStore,
    EnrolmentFailed,
    Secret,
    Usage,
    enrol,
    renew,
    verify_untrusted,
)
from weft.security.authority import read_root_key, rotate
from weft.security.ca.messages import SignRequest
from weft.security.ca.server import CaServer
from weft.security.certificates import fingerprint
from weft.security.credentials import Credentials
from weft.security.issuing import Issuer, revoke
from weft.security.rates import FAILURES_BURST

WAIT_S = 30.0


class Served:
    """A CA that runs. Its settings name no port, because the port is chosen when it starts."""

    def __init__(self, ca: Authority, port: int, failures: list[WeftError]) -> None:
        self.ca = ca
        self.failures = failures
        self.url = f"https://127.0.0.1:{port}"

    async def enrol(self, token: Secret[str], **options: Any) -> Credentials:
        return await asyncio.to_thread(enrol, token, pki.wall(), **{"url": self.url} | options)

    async def renew(self, store: CertificateStore) -> Credentials:
        return await asyncio.to_thread(renew, store, self.url, pki.wall())

    def token(self, token_id: str) -> Secret[str]:
        return pki.token(self.ca, token_id=token_id, now_s=pki.wall())

    def client(self, store: CertificateStore | None = None) -> httpx.AsyncClient:
        context = ssl.create_default_context(cadata=self.ca.root_pem.decode())
        if store is not None:
            context.load_cert_chain(store.identity_file)
        return httpx.AsyncClient(base_url=self.url, verify=context, trust_env=False, timeout=WAIT_S)


@asynccontextmanager
async def served(directory: Path, lifetime_s: int = pki.DAY_S, began_s: float = 0.0) -> AsyncIterator[Served]:
    ca = pki.authority(directory, now_s=pki.wall() + began_s, lifetime_s=lifetime_s, url="https://127.0.0.1")
    failures: list[WeftError] = []
    server = CaServer(ca, "127.0.0.1", 0, pki.wall, failures.append)
    await server.start()
    try:
        yield Served(ca, server.port, failures)
    finally:
        await server.stop()


@pytest.mark.req("SEC-01")
async def test_enrol_then_renew(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        first = await there.enrol(there.token("t1"))
        assert (first.identity, first.hosts) == (NODE_A.identity, NODE_A.hosts)
        verify_untrusted(first.chain_pem, there.ca.root_pem, Usage.SERVER, pki.wall())
        store = CertificateStore(tmp_path / "tls")
        store.save(first)
        rotate(
            there.ca, read_root_key(there.ca.root_key_file), pki.wall()
        )  # a running service takes the new intermediate
        second = await there.renew(store)
        assert second.key_pem == first.key_pem
        assert second.leaf.issuer == there.ca.signer.certificate.subject
        assert second.leaf.serial_number != first.leaf.serial_number
        store.save(second)
        third = await there.renew(store)
        assert third.hosts == NODE_A.hosts


@pytest.mark.req("SEC-01")
async def test_the_calls_are_step_cas(tmp_path: Path) -> None:
    """Field names and statuses as smallstep/certificates has them, read by a client that is not ours."""

    async with served(tmp_path) as there, there.client() as http:
        for prefix in ("", "/1.0"):
            assert (await http.get(f"{prefix}/health")).json() == {"status": "ok"}
            root = await http.get(f"{prefix}/root/{there.ca.fingerprint.upper()}")
            assert root.json() == {"ca": there.ca.root_pem.decode()}
            body = {
                "csr": pki.request().decode(),
                "ott": there.token(f"t{len(prefix)}").reveal(),
                "notAfter": "24h",
            }
            answer = await http.post(f"{prefix}/sign", json=body)
            assert answer.status_code == 201
            assert answer.headers["content-type"] == "application/json"
            found = answer.json()
            assert found["certChain"] == [found["crt"], found["ca"]]
            assert pki.leaf(found["crt"].encode()).subject.rfc4514_string() == "CN=node-a"


@pytest.mark.req("SEC-01")
async def test_refusals_have_a_status_and_a_message(tmp_path: Path) -> None:
    async with served(tmp_path) as there, there.client() as http:
        good = {"csr": pki.request().decode(), "ott": there.token("t1").reveal()}
        for call, status, words in (
            (http.post("/1.0/sign", json=good | {"ott": "x"}), 401, "not a token"),
            (http.post("/1.0/sign", json=good | {"csr": "x"}), 403, "not a certificate request"),
            (http.post("/1.0/sign", content=b"{"), 400, "the body is not"),
            (http.post("/1.0/sign", content=b"[" * 60_000), 400, "the body is not"),
            (http.post("/1.0/sign", content=b" " * (CA_BODY_BYTES_MAX + 1)), 413, "too large"),
            (http.post("/1.0/renew"), 400, "client certificate"),
            (http.get(f"/root/{'0' * 64}"), 404, "no root with that fingerprint"),
        ):
            answer = await call
            document = answer.json()
            assert (answer.status_code, document["status"]) == (status, status)
            assert words in document["message"]
        assert (await http.get("/1.0/sign")).status_code == 405
        assert (await http.get("/else")).status_code == 404


async def test_a_damaged_ca_tells_its_operator_and_not_its_callers(tmp_path: Path) -> None:
    async with served(tmp_path) as there, there.client() as http:
        (there.ca.directory / "intermediate.pem").chmod(0o644)
        body = {"csr": pki.request().decode(), "ott": there.token("t1").reveal()}
        answer = await http.post("/1.0/sign", json=body)
        assert (answer.status_code, answer.json()["status"]) == (500, 500)
        assert "intermediate" not in answer.text
        assert "intermediate.pem" in str(there.failures[0])


@pytest.mark.req("SEC-01", "SEC-02")
async def test_whoever_guesses_tokens_has_to_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as there, there.client() as http:
        store = CertificateStore(tmp_path / "tls")
        store.save(await there.enrol(there.token("t1")))
        body = {"csr": pki.request().decode(), "ott": "x"}
        statuses = [(await http.post("/1.0/sign", json=body)).status_code for _ in range(FAILURES_BURST + 1)]
        assert statuses == [401] * FAILURES_BURST + [429]
        await there.enrol(there.token("t2"))  # who has a good token is not held up, wherever it comes from
        await there.renew(store)
        assert (await http.post("/1.0/sign", json=body)).status_code == 429


@pytest.mark.req("SEC-01")
async def test_what_a_certificate_must_be_to_be_renewed(tmp_path: Path) -> None:
    async with served(tmp_path / "a", began_s=-10 * pki.DAY_S) as there:
        store = CertificateStore(tmp_path / "tls")
        store.save(pki.issued(there.ca, now_s=pki.wall()))
        revoke(there.ca.directory, NODE_A.identity)
        with pytest.raises(EnrolmentFailed, match=r"refused: node node-a of mesh plant was revoked.*status 403"):
            await there.renew(store)

        then_s = pki.wall() - 2 * pki.DAY_S
        store.save(pki.issued(there.ca, now_s=then_s))
        with pytest.raises(CertificateRefused, match="has expired: enrol again"):
            await there.renew(store)
        with pytest.raises(EnrolmentFailed):  # a clock that is behind does not help
            await asyncio.to_thread(renew, store, there.url, then_s)

        other = pki.authority(tmp_path / "b", now_s=pki.wall())
        store.save(pki.issued(other, now_s=pki.wall()))
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            async with there.client(store) as http:
                await http.post("/1.0/renew")


@pytest.mark.req("SEC-01")
async def test_an_impostor_is_found_out_by_the_fingerprint(tmp_path: Path) -> None:
    real = pki.authority(tmp_path / "real", now_s=pki.wall())
    token = pki.token(real, now_s=pki.wall())
    async with served(tmp_path / "fake") as fake:
        with pytest.raises(EnrolmentFailed, match="no root with that fingerprint"):
            await fake.enrol(token)
        # One that lies about it, and sends its own root under the other's fingerprint.
        fake_root = fake.ca.root
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Authority, "fingerprint", property(lambda _: fingerprint(real.root)))
            with pytest.raises(EnrolmentFailed, match="is not the expected CA") as caught:
                await fake.enrol(token)
        assert caught.value.facts == {"expected": fingerprint(real.root), "found": fingerprint(fake_root)}


@pytest.mark.req("SEC-01")
async def test_what_a_ca_sends_is_not_believed_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = pki.authority(tmp_path / "other", now_s=pki.wall())
    async with served(tmp_path) as there:

        def for_somebody_else(_: Issuer, request_pem: bytes, *__: object) -> bytes:
            return there.ca.issue(x509.load_pem_x509_csr(request_pem).public_key(), BILLING, pki.wall())

        def for_another_key(*_: object) -> bytes:
            return pki.issued(there.ca, now_s=pki.wall()).chain_pem

        def of_another_ca(_: Issuer, request_pem: bytes, *__: object) -> bytes:
            return other.issue(x509.load_pem_x509_csr(request_pem).public_key(), NODE_A, pki.wall())

        for number, (wrong, words) in enumerate(
            (
                (
                    for_somebody_else,
                    "a certificate for client billing of mesh plant, but the request was for node node-a",
                ),
                (for_another_key, "cannot be used: the private key is not that of the certificate"),
                (of_another_ca, "cannot be used: .* does not come from the CA that is trusted here"),
            )
        ):
            monkeypatch.setattr(Issuer, "sign_untrusted", wrong)
            with pytest.raises(EnrolmentFailed, match=words):
                await there.enrol(there.token(f"t{number}"))


async def test_a_ca_under_a_name_that_is_not_its_own_is_not_trusted(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        with pytest.raises(EnrolmentFailed, match=r"its certificate is not valid .*localhost"):
            await there.enrol(there.token("t1"), url=there.url.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "an answer that is not step-ca's /root/"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", r"refused: it did not say why \(status 500\)"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (CA_BODY_BYTES_MAX + 1), "sent an answer that is too large"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"ca": "x"}', "sent a root that cannot be read"),
        (b"SSH-2.0-x\r\n", "cannot reach the CA"),
        (b"", "cannot reach the CA"),
    ],
)
async def test_answers_of_something_else(tmp_path: Path, answer: bytes, words: str) -> None:
    ca = pki.authority(tmp_path, now_s=pki.wall())
    store = CertificateStore(tmp_path / "tls")
    store.save(pki.issued(ca, now_s=pki.wall()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store.identity_file)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(EnrolmentFailed, match=words):
            await asyncio.to_thread(enrol, pki.token(ca, now_s=pki.wall()), pki.wall(), url=url)


def test_nobody_there(tmp_path: Path, unused_port: int) -> None:
    ca = pki.authority(tmp_path, now_s=pki.wall())
    with pytest.raises(EnrolmentFailed, match=r"cannot reach the CA at https://127\.0\.0\.1:"):
        enrol(pki.token(ca), pki.wall(), url=f"https://127.0.0.1:{unused_port}")


def test_misuse(tmp_path: Path, ca: Authority) -> None:
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        enrol(pki.token(ca), pki.NOW_S, root_fingerprint="12")
    with pytest.raises(UsageError, match="no certificate to renew"):
        renew(CertificateStore(tmp_path / "none"), pki.URL, pki.NOW_S)


async def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        port = int(there.url.rsplit(":", 1)[1])
        with pytest.raises(UsageError, match=f"cannot serve the CA on 127.0.0.1 port {port}"):
            await CaServer(there.ca, "127.0.0.1", port, pki.wall, there.failures.append).start()


@pytest.mark.req("SEC-01")
async def test_the_service_renews_its_own_certificate_and_goes_on_after_a_failure(tmp_path: Path) -> None:
    """Lifetimes of a second; certificates are compared and not verified, so that a slow machine changes nothing."""

    async with served(tmp_path, lifetime_s=1) as there:
        file, signer = there.ca.directory / "server.pem", there.ca.directory / "intermediate.pem"
        signer.chmod(0o644)
        while not there.failures:
            await asyncio.sleep(0.01)
        assert "chmod 600" in str(there.failures[0])
        first = file.read_bytes()
        signer.chmod(0o600)
        address = ("127.0.0.1", int(there.url.rsplit(":", 1)[1]))
        while (await asyncio.to_thread(ssl.get_server_certificate, address)).encode() in first:
            await asyncio.sleep(0.01)


def test_messages_hide_the_token() -> None:
    assert "abc" not in repr(SignRequest("csr", "abc"))
