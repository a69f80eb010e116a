"""ES256 tokens, against the example of RFC 7515."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import StorageError
from weft.limits import TOKEN_BYTES_MAX
from weft.security import Secret, TokenRefused
from weft.security.jwt import Jwk, SigningKey, claims_untrusted, new_jwk

# RFC 7515, A.3.
RFC_KEY = Jwk(
    kty="EC",
    crv="P-256",
    x="f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    y="x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    d="jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
)
RFC_TOKEN = (
    "eyJhbGciOiJFUzI1NiJ9"
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RFC_CLAIMS = b'{"iss":"joe",\r\n "exp":1300819380,\r\n "http://example.com/is_root":true}'


@pytest.mark.req("SEC-01")
def test_the_example_of_the_rfc() -> None:
    key = SigningKey(RFC_KEY)
    assert key.verify_untrusted(RFC_TOKEN) == RFC_CLAIMS
    assert claims_untrusted(RFC_TOKEN) == RFC_CLAIMS
    assert key.verify_untrusted(key.sign(RFC_CLAIMS).reveal()) == RFC_CLAIMS


def test_a_new_key_signs_and_names_itself() -> None:
    text = new_jwk()
    key = SigningKey.read(text)
    assert key.verify_untrusted(key.sign(b"{}").reveal()) == b"{}"
    assert key.key_id == msgspec.json.decode(text.reveal(), type=Jwk).kid != ""
    with pytest.raises(TokenRefused, match="not signed by this CA"):
        key.verify_untrusted(RFC_TOKEN)


HEADER, CLAIMS, SIGNATURE = RFC_TOKEN.split(".")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "three parts"),
        (f"{HEADER}.{CLAIMS}", "three parts"),
        (f"{RFC_TOKEN}.", "three parts"),
        (f"eyJhbGciOiJub25lIn0.{CLAIMS}.", "not signed with ES256"),  # {"alg":"none"}
        (f"eyJhbGciOiJIUzI1NiJ9.{CLAIMS}.{SIGNATURE}", "not signed with ES256"),  # {"alg":"HS256"}
        (f"e30.{CLAIMS}.{SIGNATURE}", "header is not JSON"),  # {}
        (f"{HEADER}.{CLAIMS}.", "signature has the wrong size"),
        (f"{HEADER}.{CLAIMS}.{SIGNATURE}AAAA", "signature has the wrong size"),
        (f"{HEADER}.e30.{SIGNATURE}", "not signed by this CA"),
        (f"{HEADER}.{CLAIMS}.{'A' * 86}", "not signed by this CA"),  # r = s = 0
        (f"{HEADER}.{CLAIMS}.{SIGNATURE[:-1]}R", "not base64url"),  # the same bytes, spelt differently
        (f"{HEADER}.{CLAIMS}.{SIGNATURE}==", "not base64url"),
        (f"{HEADER}.{CLAIMS}.+{SIGNATURE[1:]}", "not base64url"),
        (f"{HEADER}.{CLAIMS}é.{SIGNATURE}", "not ASCII"),
        ("a" * (TOKEN_BYTES_MAX + 1), "too long"),
    ],
)
@pytest.mark.req("SEC-01")
def test_refusals(token: str, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        SigningKey(RFC_KEY).verify_untrusted(token)


@settings(max_examples=150)
@given(st.data())
def test_any_text_is_refused_unless_it_is_the_token(data: st.DataObject) -> None:
    text = list(RFC_TOKEN)
    for at in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=3)):
        text[at] = data.draw(st.characters())
    token = "".join(text)
    try:
        assert SigningKey(RFC_KEY).verify_untrusted(token) == RFC_CLAIMS
        assert token == RFC_TOKEN
    except TokenRefused:
        assert token != RFC_TOKEN


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"kty":"EC"}',
        msgspec.json.encode(msgspec.structs.replace(RFC_KEY, crv="P-384")),
        msgspec.json.encode(msgspec.structs.replace(RFC_KEY, d=RFC_KEY.x)),
        msgspec.json.encode(msgspec.structs.replace(RFC_KEY, x="AA")),
        msgspec.json.encode(msgspec.structs.replace(RFC_KEY, d="!")),
    ],
)
def test_keys_that_are_none(text: bytes) -> None:
    with pytest.raises(StorageError, match="JWK"):
        SigningKey.read(Secret(text))


def test_a_key_hides_itself() -> None:
    assert RFC_KEY.d not in repr(RFC_KEY)
