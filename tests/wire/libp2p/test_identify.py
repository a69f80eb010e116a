from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import cases, identity
from weft.wire.libp2p import identify, multiaddr, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.identify import Identify


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("case", cases("identify"))
def test_reference_messages_both_ways(case: dict[str, Any]) -> None:
    body, meaning = bytes.fromhex(case["bytes"]), case["meaning"]
    message = identify.decode_untrusted(body)
    assert message.public_key is not None
    assert message.public_key.serialised.hex() == meaning["public_key"]
    assert message.public_key == identity(case["key_type"]).public
    assert [str(address) for address in message.listen_addrs] == meaning["listen_addrs"]
    assert list(message.protocols) == meaning["protocols"]
    assert str(message.observed_addr) == meaning["observed_addr"]
    assert message.protocol_version == meaning["protocol_version"]
    assert message.agent_version == meaning["agent_version"]
    # The reference orders fields differently and adds a signed record: compare what it means, not how it is written.
    assert identify.decode_untrusted(message.encode()) == message


MINE = Identify(
    public_key=identity("Ed25519").public,
    listen_addrs=(multiaddr.tcp("127.0.0.1", 4001), multiaddr.tcp("::1", 4002)),
    protocols=(identify.PROTOCOL, "/floodsub/1.0.0"),
    observed_addr=multiaddr.tcp("192.0.2.7", 5),
    protocol_version="ipfs/0.1.0",
    agent_version="weft",
)


def test_round_trip() -> None:
    assert identify.decode_untrusted(MINE.encode()) == MINE


def test_a_push_may_leave_things_out() -> None:
    empty = Identify(None, (), (), None, "", "")
    assert identify.decode_untrusted(b"") == empty
    assert identify.decode_untrusted(empty.encode()) == empty


def test_addresses_of_unknown_kinds_are_left_out() -> None:
    udp = b"\x04\x7f\x00\x00\x01\x11\x00\x50"
    encoded = protobuf.encode([(2, udp), (2, multiaddr.tcp("127.0.0.1", 1).encode()), (2, b""), (4, udp)])
    message = identify.decode_untrusted(encoded)
    assert message.listen_addrs == (multiaddr.tcp("127.0.0.1", 1),)
    assert message.observed_addr is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (bytes(65537), "too long"),
        (protobuf.encode([(1, b"\x08\x09\x12\x00")]), "unknown type"),
        (protobuf.encode([(2, b"x")] * 257), "too often"),
        (protobuf.encode([(3, "x" * 1025)]), "too long"),
        (protobuf.encode([(3, b"\xff")]), "not UTF-8"),
        (protobuf.encode([(6, "x" * 257)]), "too long"),
        (protobuf.encode([(5, 5)]), "should be bytes"),
        (MINE.encode()[:-1], "overruns"),
    ],
)
@pytest.mark.req("COA-01")
def test_refused_messages(body: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        identify.decode_untrusted(body)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(BadFrame):
        message = identify.decode_untrusted(body)
        assert identify.decode_untrusted(message.encode()) == message
