"""TLS contexts for both sides. Certificates may come from the mesh (SEC-01), or from another CA if the other side is no
node of a mesh."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from weft.errors import UsageError


def server_context(identity_file: Path, root_pem: bytes | None = None) -> ssl.SSLContext:
    """A context for a server, with key and certificates from one file; UsageError if they cannot be used.

    With ``root_pem``, clients may show a certificate; one that was not issued there is refused.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_identity(context, identity_file, None)
    if root_pem is not None:
        context.load_verify_locations(cadata=root_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def renewing(current: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """A server's context that asks for the current context at every handshake, so that new certificates are used at
    once."""

    def choose(connection: ssl.SSLObject, name: str | None, before: ssl.SSLContext) -> None:
        connection.context = current()

    context = current()
    context.sni_callback = choose
    return context


def client_context(
    root_file: Path | None, certificate_file: Path | None = None, key_file: Path | None = None
) -> ssl.SSLContext:
    """A context for a client: whom to trust (None: whom this machine trusts), and what to show if asked; UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if root_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(root_file)
        except OSError as error:  # ssl.SSLError is one
            raise UsageError(f"no certificates to trust in {root_file}: {error.strerror or error}") from None
    if certificate_file is not None:
        _load_identity(context, certificate_file, key_file)
    return context


def _load_identity(context: ssl.SSLContext, certificate_file: Path, key_file: Path | None) -> None:
    try:
        context.load_cert_chain(certificate_file, key_file)
    except OSError as error:
        where = certificate_file if key_file is None else f"{certificate_file} and {key_file}"
        raise UsageError(f"no certificate with its key in {where}: {error.strerror or error}") from None
