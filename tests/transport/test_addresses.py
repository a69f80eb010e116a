"""HOST:PORT: what is taken, what is refused, and what counts as this machine only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.transport.addresses import Address, BadAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7400", Address("127.0.0.1", 7400)),
        ("node-b.example.org:1", Address("node-b.example.org", 1)),
        ("[::1]:65535", Address("::1", 65535)),
        ("[2001:DB8:0::1]:0", Address("2001:db8::1", 0)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", "7400", ":7400", "host", "host:", "host:07400", "host:65536", "host:-1", "::1:7400", "[::1]", "[zz]:1",
     "[:::1]:1", "a b:1", "http://h:1", "h:1/", "x" * 254 + ":1", "h:1\n"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_address(text)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(text)
    except BadAddress:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("weft", False),
    ],
)
def test_loopback_is_what_nobody_else_can_reach(host: str, loopback: bool) -> None:
    assert Address(host, 7400).is_loopback is loopback
