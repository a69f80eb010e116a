"""JSON Web Tokens signed with ES256, and the keys that sign them (RFC 7515, 7517, 7519, 7638).

One algorithm, named by us and not by the token: letting the header choose has broken many verifiers. Why not PyJWT:
ADR 51.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from weft.errors import StorageError
from weft.limits import TOKEN_BYTES_MAX
from weft.security.certificates import new_key
from weft.security.errors import TokenRefused
from weft.security.secret import Secret

ALGORITHM: Final = "ES256"
NUMBER_BYTES: Final = 32  # of a P-256 coordinate, and of each half of a signature


class Jwk(msgspec.Struct, frozen=True):
    """An EC private key as JSON. It is a ``msgspec.Struct``, which reads itself; its repr hides ``d``."""

    kty: str
    crv: str
    x: str
    y: str
    d: str
    use: str = "sig"
    alg: str = ALGORITHM
    kid: str = ""

    def __repr__(self) -> str:
        return f"Jwk({self.kid})"


class Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""
    typ: str = "JWT"


class SigningKey:
    """A private JWK: it signs tokens, and knows whether it signed one."""

    def __init__(self, jwk: Jwk) -> None:
        """Raise StorageError if this is not a private key on P-256."""
        try:
            x, y, d = (int.from_bytes(_unbase64(number)) for number in (jwk.x, jwk.y, jwk.d))
            public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1())
            if (jwk.kty, jwk.crv) != ("EC", "P-256"):
                raise ValueError("another kind of key")
            self._key = ec.EllipticCurvePrivateNumbers(d, public).private_key()
        except (ValueError, TypeError):
            raise StorageError("not a private JWK on P-256 that can sign tokens") from None
        self._public = self._key.public_key()
        self.key_id = jwk.kid or thumbprint(jwk.x, jwk.y)

    @classmethod
    def read(cls, text: Secret[bytes]) -> SigningKey:
        try:
            return cls(msgspec.json.decode(text.reveal(), type=Jwk))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise StorageError("not a JWK") from None  # msgspec's own words could quote the key

    def sign(self, claims: bytes) -> Secret[str]:
        """The token that carries these claims (JSON)."""
        header = msgspec.json.encode(Header(ALGORITHM, self.key_id))
        signed = f"{_base64(header)}.{_base64(claims)}"
        halves = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = b"".join(half.to_bytes(NUMBER_BYTES) for half in halves)
        return Secret(f"{signed}.{_base64(signature)}")

    def verify_untrusted(self, token: str) -> bytes:
        """The claims of a token that this key signed; raise only TokenRefused."""
        header, claims, signature, signed = _split_untrusted(token)
        try:
            found = msgspec.json.decode(header, type=Header)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise TokenRefused("the token's header is not JSON") from None
        if found.alg != ALGORITHM:
            raise TokenRefused(f"the token is not signed with {ALGORITHM}")
        if len(signature) != 2 * NUMBER_BYTES:
            raise TokenRefused("the token's signature has the wrong size", have=len(signature), need=2 * NUMBER_BYTES)
        halves = (int.from_bytes(signature[:NUMBER_BYTES]), int.from_bytes(signature[NUMBER_BYTES:]))
        try:
            self._public.verify(encode_dss_signature(*halves), signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise TokenRefused("the token was not signed by this CA's provisioner, or was altered") from None
        return claims


def claims_untrusted(token: str) -> bytes:
    """What a token says, without checking its signature; raise only TokenRefused. For the caller that presents it, not
    for one that trusts it."""
    return _split_untrusted(token)[1]


def new_jwk() -> Secret[bytes]:
    """A new private key as JSON."""
    numbers = new_key().private_numbers()
    x, y = (_base64(number.to_bytes(NUMBER_BYTES)) for number in (numbers.public_numbers.x, numbers.public_numbers.y))
    secret = _base64(numbers.private_value.to_bytes(NUMBER_BYTES))
    return Secret(msgspec.json.format(msgspec.json.encode(Jwk("EC", "P-256", x, y, secret, kid=thumbprint(x, y)))))


def thumbprint(x: str, y: str) -> str:
    """The key's name by RFC 7638: a hash of its required members in alphabetical order, without blanks."""
    text = f'{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}'
    return _base64(hashlib.sha256(text.encode()).digest())


def _split_untrusted(token: str) -> tuple[bytes, bytes, bytes, bytes]:
    if len(token) > TOKEN_BYTES_MAX or not token.isascii():
        raise TokenRefused("the token is too long or not ASCII", limit=TOKEN_BYTES_MAX)
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("not a token: expected three parts with dots between them", have=len(parts))
    try:
        header, claims, signature = map(_unbase64, parts)
    except ValueError:
        raise TokenRefused("not a token: its parts are not base64url") from None
    return header, claims, signature, f"{parts[0]}.{parts[1]}".encode()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    """Strict: each value has one text, so that a token cannot be spelt in two ways."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64url") from None
    if _base64(data) != text:
        raise ValueError("not base64url in canonical form")
    return data
