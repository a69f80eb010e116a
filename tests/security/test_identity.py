"""SPIFFE ids of nodes and clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.security import BadIdentity, Identity, Kind, client, node, parse_identity_untrusted


@pytest.mark.req("SEC-01")
def test_the_two_kinds() -> None:
    assert node("plant", "node-a").uri == "spiffe://plant/node/node-a"
    assert client("plant", "billing").uri == "spiffe://plant/client/billing"
    assert str(node("plant", "node-a")) == "node node-a of mesh plant"
    assert parse_identity_untrusted("spiffe://plant/node/node-a") == Identity("plant", Kind.NODE, "node-a")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "spiffe://plant/node/",
        "spiffe:///node/a",
        "spiffe://plant/nodes/a",
        "spiffe://plant/node/a/b",
        "spiffe://plant/node/a?x",
        "spiffe://plant/node/../client/a",
        "spiffe://Plant/node/a",
        "spiffe://plant:80/node/a",
        "spiffe://user@plant/node/a",
        "spiffe://plant/node/é",
        "https://plant/node/a",
        "spiffe://plant/node/a\n",
        "spiffe://plant/node/" + "a" * 65,
        "spiffe://" + "a" * 129 + "/node/a",
    ],
)
def test_everything_else_is_refused(uri: str) -> None:
    with pytest.raises(BadIdentity):
        parse_identity_untrusted(uri)


@given(st.text(max_size=300) | st.text("spife:/nodcltab", max_size=40).map("spiffe://".__add__))
def test_any_text_is_an_identity_or_refused(uri: str) -> None:
    try:
        found = parse_identity_untrusted(uri)
    except BadIdentity as error:
        assert len(str(error)) < 1500
    else:
        assert found.uri == uri
