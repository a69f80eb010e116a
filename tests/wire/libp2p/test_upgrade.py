"""From bytes to an upgraded connection: every split of the bytes, and what does not fit together."""

from __future__ import annotations

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.coaty.js_agent import own_identity
from weft.wire.libp2p import PeerId
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.multistream import encode_line
from weft.wire.libp2p.upgrade import Entropy, Upgrade, Upgraded

ONE, OTHER = own_identity("Ed25519"), own_identity("secp256k1")


def entropy(seed: str) -> Entropy:
    numbers = iter(range(1000))
    return lambda size: hashlib.shake_256(f"{seed} {next(numbers)}".encode()).digest(size)


def sides(expected: PeerId = OTHER.peer) -> tuple[Upgrade, Upgrade]:
    return Upgrade(ONE, expected, entropy("one")), Upgrade(OTHER, None, entropy("other"))


def pump(one: Upgrade, other: Upgrade, sizes: list[int]) -> tuple[Upgraded, Upgraded]:
    """Carry bytes between the two in pieces of these sizes, over and over."""
    done: dict[Upgrade, Upgraded] = {}
    rest: dict[Upgrade, bytes] = {one: b"", other: b""}
    turn = 0
    while len(done) < 2:
        moved = False
        for source, target in ((one, other), (other, one)):
            pending = rest[target] + source.data_to_send()
            size = sizes[turn % len(sizes)]
            turn += 1
            piece, rest[target] = pending[:size], pending[size:]
            if piece and target not in done:
                moved = True
                outcome = target.receive_data(piece)
                if outcome is not None:
                    done[target] = outcome
            elif piece:
                rest[target] = piece + rest[target]  # for the muxer, which is not part of this
        assert moved or len(done) == 2, "they wait for each other"
    return done[one], done[other]


@pytest.mark.req("COA-01")
@given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_however_the_bytes_are_split_both_sides_agree(sizes: list[int]) -> None:
    one, other = pump(*sides(), sizes)
    assert (one.remote.peer, other.remote.peer) == (OTHER.peer, ONE.peer)
    stream, opened = one.muxer.open_stream()
    sealed = one.channel.send(opened + one.muxer.send(stream, b"hello"))
    plaintext = other.rest + b"".join(other.channel.receive_data(sealed))
    assert [type(event).__name__ for event in other.muxer.receive_data(plaintext)] == ["StreamOpened", "StreamData"]


def test_another_peer_than_the_one_dialled() -> None:
    with pytest.raises(BadFrame, match="another peer answers"):
        pump(*sides(expected=own_identity("RSA").peer), [4096])


def test_a_listener_that_refuses_all_we_propose() -> None:
    one, _ = sides()
    with pytest.raises(BadFrame, match="none of the protocols"):
        one.receive_data(encode_line("/multistream/1.0.0") + encode_line("na"))


@given(st.binary(max_size=300))
def test_any_bytes_are_waited_for_or_refused(data: bytes) -> None:
    for side in sides():
        with suppress(BadFrame):
            assert side.receive_data(data) is None
