"""One-time enrolment tokens, as step-ca's JWK provisioner has them (SEC-01).

A token says: its bearer may have a certificate for these names, within five minutes, once. It also names the CA
(``aud``) and its root (``sha``), so that a new node needs nothing but the token.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import TOKEN_BYTES_MAX
from weft.security.certificates import Names
from weft.security.errors import TokenRefused
from weft.security.files import read_private
from weft.security.identity import parse_identity_untrusted
from weft.security.jwt import SigningKey, claims_untrusted
from weft.security.secret import Secret
from weft.security.urls import CaUrl, parse_audience

TOKEN_LIFETIME_S: Final = 300  # as step-ca's; long enough to carry it to another machine
TOKEN_LEEWAY_S: Final = 60  # between clocks, as step-ca has it
SIGN_PATHS: Final = ("/1.0/sign", "/sign")
PROVISIONER_NAME: Final = "weft"
TOKEN_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")


class Claims(msgspec.Struct, frozen=True):
    """What a token says. A ``msgspec.Struct``, which reads and checks itself from JSON."""

    iss: str
    aud: str | list[str]
    sub: str
    nbf: int
    exp: int
    jti: str
    sans: list[str] = []
    sha: str = ""
    iat: int | None = None

    @property
    def audiences(self) -> list[str]:
        return [self.aud] if isinstance(self.aud, str) else self.aud

    @property
    def names(self) -> Names:
        """Raise TokenRefused if there is not exactly one SPIFFE id among them, or the subject is another."""
        uris = [each for each in self.sans if "://" in each]
        if len(uris) != 1:
            raise TokenRefused("a token for a mesh has exactly one SPIFFE id among its names", have=len(uris))
        try:
            found = Names(parse_identity_untrusted(uris[0]), tuple(each for each in self.sans if each != uris[0]))
        except UsageError as error:
            raise TokenRefused(str(error)) from None
        if found.identity.name != self.sub:
            raise TokenRefused(f"the token's subject is {self.sub[:100]!r}, its SPIFFE id names {found.identity.name}")
        return found

    @property
    def ca(self) -> CaUrl:
        """The CA for which the token is valid; raise TokenRefused if it does not say."""
        for text in self.audiences:
            if (audience := parse_audience(text)) and audience[1] in SIGN_PATHS:
                return audience[0]
        raise TokenRefused("the token names no CA: its audience is not https://HOST:PORT/1.0/sign")


class Provisioner:
    """Makes tokens for one CA, and tells whether it made one."""

    def __init__(self, key: SigningKey, ca: CaUrl, mesh: str, root_fingerprint: str) -> None:
        self._key = key
        self._ca = ca
        self._mesh = mesh
        self._root_fingerprint = root_fingerprint

    def make(self, names: Names, token_id: str, now_s: float) -> Secret[str]:
        """``token_id`` is random; ``now_s`` is Unix time."""
        if names.identity.mesh != self._mesh:
            raise UsageError(f"this CA is of mesh {self._mesh}, not {names.identity.mesh}")
        claims = Claims(
            iss=PROVISIONER_NAME,
            aud=f"{self._ca}{SIGN_PATHS[0]}",
            sub=names.identity.name,
            nbf=int(now_s),
            exp=int(now_s) + TOKEN_LIFETIME_S,
            jti=token_id,
            sans=list(names.texts),
            sha=self._root_fingerprint,
            iat=int(now_s),
        )
        return self._key.sign(msgspec.json.encode(claims))

    def check_untrusted(self, token: str, now_s: float) -> Claims:
        """What a token of ours says; raise only TokenRefused. Whether it was used before is asked elsewhere."""
        claims = _read(self._key.verify_untrusted(token))
        if claims.iss != PROVISIONER_NAME:
            raise TokenRefused(f"the token's issuer is not {PROVISIONER_NAME}")
        if claims.ca.host != self._ca.host:  # the port may be another one, as step-ca has it: think of NAT
            raise TokenRefused(f"the token is for the CA at {claims.ca}, this is {self._ca}")
        if claims.sha not in ("", self._root_fingerprint):
            raise TokenRefused("the token is for a CA with another root")
        if not TOKEN_ID.fullmatch(claims.jti):
            raise TokenRefused("the token has no usable id (jti)")
        _check_time(claims, now_s)
        if claims.names.identity.mesh != self._mesh:
            raise TokenRefused(f"the token is for mesh {claims.names.identity.mesh}, this CA is of {self._mesh}")
        return claims


def read_token_file(file: Path) -> Secret[str]:
    """The token in a file that nobody else can read; raise UsageError if there is none, StorageError if others can read
    it."""
    text = read_private(file)
    if text is None:
        raise UsageError(f"there is no file {file} with a token")
    return Secret(text[: TOKEN_BYTES_MAX + 1].decode("ascii", "replace").strip())


def read_token_untrusted(token: Secret[str]) -> Claims:
    """What a token says, for its holder; raise only TokenRefused."""
    claims = _read(claims_untrusted(token.reveal()))
    if claims.sha and not FINGERPRINT.fullmatch(claims.sha):
        raise TokenRefused("the token's root fingerprint is not 64 hexadecimal digits")
    return claims


def _read(data: bytes) -> Claims:
    try:
        return msgspec.json.decode(data, type=Claims)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("the token's claims are not those of an enrolment token") from None


def _check_time(claims: Claims, now_s: float) -> None:
    if claims.exp - claims.nbf > TOKEN_LIFETIME_S:
        # Used tokens are remembered until they expire, so none may be good for years.
        raise TokenRefused("the token lasts too long", have_s=claims.exp - claims.nbf, limit_s=TOKEN_LIFETIME_S)
    if now_s < claims.nbf - TOKEN_LEEWAY_S:
        raise TokenRefused("the token is not valid yet: compare the clocks", in_s=round(claims.nbf - now_s))
    if now_s >= claims.exp + TOKEN_LEEWAY_S:
        raise TokenRefused("the token has expired: ask for a new one", since_s=round(now_s - claims.exp))
