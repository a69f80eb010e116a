"""What a CA and its callers send each other, as step-ca writes it. Unknown fields are ignored.

These are ``msgspec.Struct``s, which read and check themselves from JSON.
"""

from __future__ import annotations

import msgspec


class SignRequest(msgspec.Struct, frozen=True):
    """``csr`` is PEM, ``ott`` the one-time token."""

    csr: str
    ott: str

    def __repr__(self) -> str:
        return "SignRequest(***)"  # the token is a secret


class SignResponse(msgspec.Struct, frozen=True):
    """PEM texts: the certificate, the intermediate, and both. Old versions of step-ca leave the chain out."""

    crt: str
    ca: str
    cert_chain: list[str] = msgspec.field(name="certChain", default_factory=list)


class RootResponse(msgspec.Struct, frozen=True):
    ca: str


class ErrorResponse(msgspec.Struct, frozen=True):
    status: int
    message: str
