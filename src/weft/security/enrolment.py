"""Getting a certificate from a CA, ours or a real step-ca: bootstrap, sign, renew (SEC-01).

The first call fetches the root without trusting anybody, and believes it only if its fingerprint is the one in the
token. Every later call trusts that root and nothing else. Calls block: they are made once a day, in a thread if an
event loop must go on (``asyncio.to_thread``).
"""

from __future__ import annotations

import http.client
import ssl
from typing import Final, TypeVar

import msgspec

from weft.errors import StorageError, UsageError, WeftError
from weft.limits import CA_BODY_BYTES_MAX
from weft.security.ca.messages import ErrorResponse, RootResponse, SignRequest, SignResponse
from weft.security.certificates import (
    Names,
    fingerprint,
    key_pem,
    make_request,
    new_key,
    read_chain_untrusted,
    to_pem,
)
from weft.security.credentials import CertificateStore, Credentials, credentials
from weft.security.errors import EnrolmentFailed
from weft.security.secret import Secret
from weft.security.tokens import FINGERPRINT, read_token_untrusted
from weft.security.urls import CaUrl, parse_url
from weft.security.verification import Usage, verify_untrusted

CA_CALL_TIMEOUT_S: Final = 10.0  # connecting, and then each read
MESSAGE_CHARS_MAX: Final = 500  # of a CA's own words in our error

T = TypeVar("T")


def enrol(
    token: Secret[str],
    now_s: float,
    *,
    url: str | None = None,
    root_fingerprint: str | None = None,
) -> Credentials:
    """Make a new key, and get a certificate for it. URL and fingerprint come from the token if they are not given.

    Raise EnrolmentFailed, or TokenRefused if the text is no token at all. ``now_s`` is Unix time.
    """
    claims = read_token_untrusted(token)
    ca = parse_url(url) if url else claims.ca
    wanted = root_fingerprint or claims.sha
    if not wanted:
        raise UsageError("the token does not name a root certificate to trust: give the root's fingerprint")
    names = claims.names
    root = fetch_root(ca, wanted)
    key = new_key()
    asked = msgspec.json.encode(SignRequest(make_request(key, names).decode(), token.reveal()))
    answer = _call(ca, "POST", "/1.0/sign", _trusting(root), asked, SignResponse)
    return _accepted(answer, root, key_pem(key), names, now_s)


def renew(store: CertificateStore, url: str, now_s: float) -> Credentials:
    """Get a new certificate for the key and names of the one in the store, which stays as it is until ``save``.

    Raise CertificateRefused if that one is no longer valid, EnrolmentFailed if the CA refuses or cannot be reached.
    """
    current = store.load()
    if current is None:
        raise UsageError(f"there is no certificate to renew at {store.identity_file}")
    # Checked here, because a server that refuses a certificate often just hangs up.
    verify_untrusted(current.chain_pem, current.root_pem, Usage.CLIENT, now_s)
    context = _trusting(current.root_pem)
    try:
        context.load_cert_chain(store.identity_file)
    except OSError as error:
        raise StorageError(f"cannot use {store.identity_file}: {error.strerror}") from None
    answer = _call(parse_url(url), "POST", "/1.0/renew", context, b"", SignResponse)
    return _accepted(answer, current.root_pem, current.key_pem, Names(current.identity), now_s)


def fetch_root(ca: CaUrl, wanted: str) -> bytes:
    """The root (PEM) with this SHA-256, from whichever server answers; raise EnrolmentFailed."""
    wanted = wanted.replace(":", "").replace("-", "").lower()
    if not FINGERPRINT.fullmatch(wanted):
        raise UsageError("a root's fingerprint is its SHA-256: 64 hexadecimal digits")
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE  # what comes is compared with the fingerprint
    answer = _call(ca, "GET", f"/root/{wanted}", unverified, None, RootResponse)
    try:
        root = read_chain_untrusted(answer.ca.encode())[0]
    except WeftError as error:
        raise EnrolmentFailed(f"the CA at {ca} sent a root that cannot be read: {error}") from None
    if fingerprint(root) != wanted:
        raise EnrolmentFailed(
            f"the server at {ca} is not the expected CA: its root has another fingerprint",
            expected=wanted,
            found=fingerprint(root),
        )
    return to_pem([root])


def _accepted(answer: SignResponse, root: bytes, key: Secret[bytes], names: Names, now_s: float) -> Credentials:
    """A CA can be wrong, too: its answer is used only if it has our key and our names and is valid by our clock."""
    chain = "".join(answer.cert_chain or [answer.crt, answer.ca]).encode()
    try:
        verify_untrusted(chain, root, Usage.CLIENT, now_s)
        found = credentials(root, chain, key)
    except WeftError as error:
        raise EnrolmentFailed(f"the CA sent a certificate that cannot be used: {error}") from None
    if found.identity != names.identity:
        raise EnrolmentFailed(
            f"the CA sent a certificate for {found.identity}, but the request was for {names.identity}"
        )
    return found


def _trusting(root_pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=root_pem.decode())
    return context


def _call(ca: CaUrl, method: str, path: str, context: ssl.SSLContext, body: bytes | None, kind: type[T]) -> T:
    status, data = _exchange(ca, method, path, context, body)
    if status not in (200, 201):
        raise EnrolmentFailed(f"the CA at {ca} refused: {_reason(data)}", status=status)
    return _decoded(data, kind, f"the CA at {ca} sent an answer that is not step-ca's {path}")


def _exchange(ca: CaUrl, method: str, path: str, context: ssl.SSLContext, body: bytes | None) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection(ca.host, ca.port, timeout=CA_CALL_TIMEOUT_S, context=context)
    headers = {"Content-Type": "application/json"} if body else {}
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read(CA_BODY_BYTES_MAX + 1)
    except ssl.SSLError as error:
        raise EnrolmentFailed(f"no TLS with the CA at {ca}: {_tls_reason(error)}") from None
    except (OSError, http.client.HTTPException) as error:
        raise EnrolmentFailed(f"cannot reach the CA at {ca}: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()
    if len(data) > CA_BODY_BYTES_MAX:
        raise EnrolmentFailed(f"the CA at {ca} sent an answer that is too large", limit=CA_BODY_BYTES_MAX)
    return response.status, data


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    return (error.reason or str(error)).replace("_", " ").lower()


def _reason(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=ErrorResponse).message[:MESSAGE_CHARS_MAX]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "it did not say why"


def _decoded(data: bytes, kind: type[T], otherwise: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise EnrolmentFailed(otherwise) from None
