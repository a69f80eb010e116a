"""Statements on keys are believed if a node of the mesh signed them while its certificate was valid, and not else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security import pki
from tests.security.stated import made, record, revoked
from weft.security import Credentials, Names, client, node
from weft.security.api_keys import NAME_CHARS_MAX
from weft.security.key_statements import (
    BY_CHARS_MAX,
    REVOKED_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    UNIX_S_MAX,
    BadStatement,
    KeyMade,
    KeyRevoked,
    SignedText,
    Verifier,
    read_body_untrusted,
    sign,
)

KEY = record(1)


@pytest.fixture
def mine(tmp_path: Path) -> Credentials:
    return pki.issued(pki.authority(tmp_path))


def verifier(of: Credentials, makers: frozenset[str] | None = None) -> Verifier:
    return Verifier(pki.MESH, lambda: of.root_pem, makers)


@pytest.mark.req("SEC-03")
def test_what_a_node_signs_is_believed_by_others_long_after_its_certificate_has_ended(mine: Credentials) -> None:
    for said in (made(KEY, "node-a"), revoked(KEY, "node-a")):
        signed = sign(said, mine, pki.NOW_S + 5)
        assert signed.said.signed_s == int(pki.NOW_S) + 5
        believed = verifier(mine).believe_untrusted(signed.text, known_s=77)
        assert (believed.said, believed.slot, believed.known_s) == (signed.said, signed.slot, 77)


def test_a_node_whose_certificate_has_ended_can_still_revoke(mine: Credentials) -> None:
    """Its CA may be away for longer than a day."""
    late = sign(revoked(KEY, "node-a"), mine, mine.end_s + 1000)
    assert verifier(mine).believe_untrusted(late.text, 0).said.signed_s < mine.end_s


def altered(text: SignedText, **changes: object) -> SignedText:
    document = msgspec.json.decode(text.body) | changes
    return replace(text, body=msgspec.json.encode(document))


@pytest.mark.req("SEC-03", "SEC-06")
def test_forged_and_altered_statements_are_refused(mine: Credentials, tmp_path: Path) -> None:
    good = sign(made(KEY, "node-a"), mine, pki.NOW_S).text
    other = pki.issued(pki.authority(tmp_path / "other"))
    ca = pki.authority(tmp_path / "third")
    somebody = pki.issued(ca, Names(client(pki.MESH, "node-a")))
    b = pki.issued(ca, Names(node(pki.MESH, "node-b")))
    foreign = pki.issued(ca, Names(node("elsewhere", "node-a")))
    more = msgspec.to_builtins(record(1, publish=[">"]))
    cases = {
        "signature is not valid": [
            altered(good, key=more),
            altered(good, by="somebody else"),
            altered(good, signed_s=int(pki.NOW_S) + 1),
            replace(good, signature=good.signature[:-1]),
            replace(good, signature=b""),
            replace(good, signature=sign(made(KEY, "node-a"), other, pki.NOW_S).text.signature),
        ],
        "does not come from the CA": [sign(made(KEY, "node-a"), other, pki.NOW_S).text],
        "when the certificate was not valid": [altered(good, signed_s=int(mine.end_s))],
        "signature is too long": [replace(good, signature=bytes(100))],
        "certificates are too long": [replace(good, chain=bytes(1 << 20))],
        "certificate of the signer is not valid": [replace(good, chain=b"nonsense")],
    }
    check = verifier(mine)
    check.believe_untrusted(good, 0)
    for words, texts in cases.items():
        for text in texts:
            with pytest.raises(BadStatement, match=words):
                check.believe_untrusted(text, 0)
    third = verifier(b)
    claims = msgspec.structs.replace(made(KEY, "node-a"), signed_s=int(pki.NOW_S))
    for credentials, words in (
        (b, "signed by a node other than the named one"),
        (somebody, "is not made for a TLS server"),
        (foreign, "certificate is of mesh elsewhere"),
    ):
        forged = _signed_anyway(claims, credentials)
        with pytest.raises(BadStatement, match=words):
            third.believe_untrusted(forged, 0)


def _signed_anyway(said: KeyMade, credentials: Credentials) -> SignedText:
    """As somebody who does not keep to ``sign``."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from weft.security.certificates import load_key
    from weft.security.key_statements import DOMAIN

    body = msgspec.json.encode(said)
    signature = load_key(credentials.key_pem).sign(DOMAIN + body, ec.ECDSA(hashes.SHA256()))
    return SignedText(body, signature, credentials.chain_pem)


@pytest.mark.req("SEC-03")
def test_only_nodes_that_may_make_keys_are_believed(mine: Credentials) -> None:
    for said in (made(KEY, "node-a"), revoked(KEY, "node-a")):
        text = sign(said, mine, pki.NOW_S).text
        assert verifier(mine, frozenset({"node-a"})).believe_untrusted(text, 0).said.signer == "node-a"
        with pytest.raises(BadStatement, match=r"may not make keys \(keys.makers\)"):
            verifier(mine, frozenset({"node-b"})).believe_untrusted(text, 0)


@pytest.mark.parametrize(
    "body",
    [
        {"type": "unknown"},
        {"type": "revoked", "id": "k1", "mark": "xyz", "signer": "a", "signed_s": 0, "by": ""},
        {"type": "revoked", "id": "1", "mark": "00" * 8, "signer": "a", "signed_s": 0, "by": ""},
        {"type": "revoked", "id": "k1", "mark": "00" * 8, "signer": "a b", "signed_s": 0, "by": ""},
        {"type": "revoked", "id": "k1", "mark": "00" * 8, "signer": "a", "signed_s": -1, "by": ""},
        {"type": "revoked", "id": "k1", "mark": "00" * 8, "signer": "a", "signed_s": 0, "by": "\n"},
        {"type": "revoked", "id": "k1", "mark": "00" * 8, "signer": "a", "signed_s": 0, "by": "", "more": 1},
        {
            "type": "made",
            "key": {**msgspec.to_builtins(KEY), "new_right": True},
            "signer": "a",
            "signed_s": 0,
            "by": "",
        },
        {
            "type": "made",
            "key": {**msgspec.to_builtins(KEY), "id": "k" + "0" * 16},
            "signer": "a",
            "signed_s": 0,
            "by": "",
        },
    ],
)
def test_what_cannot_be_meant_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(BadStatement, match="cannot be read"):
        read_body_untrusted(msgspec.json.encode(body))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(BadStatement):
        read_body_untrusted(body)


def test_statements_have_a_bound(mine: Credentials) -> None:
    with pytest.raises(BadStatement, match="too large"):
        read_body_untrusted(bytes(STATEMENT_BYTES_MAX + 1))
    patterns = [f"{'a' * 60}.{'b' * 60}.{'c' * 60}.{'d' * 60}.t{number}" for number in range(64)]
    longest = record(1, publish=patterns, subscribe=patterns)
    assert sign(made(longest, "node-a"), mine, pki.NOW_S).size_bytes < STATEMENT_BYTES_MAX


@pytest.mark.req("SEC-06")
def test_a_revocation_is_small_so_that_ten_thousand_of_them_fit_into_a_file(mine: Credentials) -> None:
    good = sign(revoked(KEY, "node-a"), mine, pki.NOW_S).text
    assert isinstance(read_body_untrusted(good.body), KeyRevoked)
    with pytest.raises(BadStatement, match="too large"):
        read_body_untrusted(good.body + b" " * REVOKED_BYTES_MAX)


def test_the_longest_revocation_fits(mine: Credentials) -> None:
    longest = revoked(record(1, name="\N{GRINNING FACE}" * NAME_CHARS_MAX, expires_s=UNIX_S_MAX), "node-a")
    longest = msgspec.structs.replace(longest, name="\N{GRINNING FACE}" * NAME_CHARS_MAX, by="\u00e9" * BY_CHARS_MAX)
    assert len(sign(longest, mine, pki.NOW_S).text.body) < REVOKED_BYTES_MAX
