from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import KEY_TYPES, fixed_entropy, identity, split_at
from weft.errors import UsageError
from weft.wire.libp2p import protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import U32Frames, u32_prefixed
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.secio import CipherName, Exchange, Handshake, HashName, Offer, Secured, Suite
from weft.wire.libp2p.secio.handshake import SECIO_HANDSHAKE_BYTES_MAX

OURS, THEIRS = identity("Ed25519"), identity("secp256k1")


def handshake(expected: PeerId | None = None, seed: str = "ours", offer: Offer = Offer()) -> Handshake:  # noqa: B008
    return Handshake(OURS, expected, fixed_entropy(seed), offer)


def run(one: Handshake, other: Handshake) -> tuple[Secured, Secured]:
    """Carry bytes back and forth until both are secured."""
    ends: dict[Handshake, Secured] = {}
    for _ in range(4):
        for source, target in ((one, other), (other, one)):
            data = source.data_to_send()
            if data and target not in ends and (secured := target.receive_data(data)):
                ends[target] = secured
    return ends[one], ends[other]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize(("ours", "theirs"), list(itertools.permutations(KEY_TYPES, 2)))
def test_all_pairs_of_key_types(ours: str, theirs: str) -> None:
    one = Handshake(identity(ours), identity(theirs).peer, fixed_entropy("one"))
    other = Handshake(identity(theirs), None, fixed_entropy("other"))
    left, right = run(one, other)
    assert left.remote == identity(theirs).public
    assert right.remote == identity(ours).public
    assert right.channel.receive_data(left.channel.send(b"to the right")) == [b"to the right"]
    assert left.channel.receive_data(right.channel.send(b"to the left")) == [b"to the left"]


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("suite", [Suite(*parts) for parts in itertools.product(Exchange, CipherName, HashName)])
def test_all_suites(suite: Suite) -> None:
    offer = Offer((suite.exchange,), (suite.cipher,), (suite.hash,))
    left, right = run(handshake(offer=offer), Handshake(THEIRS, None, fixed_entropy("theirs")))
    assert left.suite == right.suite == suite
    assert right.channel.receive_data(left.channel.send(b"hello")) == [b"hello"]


def test_the_leading_side_has_its_way() -> None:
    reverse = Offer(tuple(Exchange)[::-1], tuple(CipherName)[::-1], tuple(HashName)[::-1])
    seen = set()
    for number in range(16):
        left, right = run(
            handshake(seed=f"{number}", offer=reverse), Handshake(THEIRS, None, fixed_entropy(f"other {number}"))
        )
        assert left.suite == right.suite
        seen.add(left.suite)
    assert seen == {
        Suite(Exchange.P256, CipherName.AES256, HashName.SHA256),
        Suite(Exchange.P521, CipherName.AES128, HashName.SHA512),
    }


@given(cuts=st.lists(st.integers(0, 2000), max_size=10))
def test_any_split_gives_the_same_bytes_and_leaves_nothing_behind(cuts: list[int]) -> None:
    one, other = handshake(), Handshake(THEIRS, None, fixed_entropy("theirs"))
    first = one.data_to_send()
    other.receive_data(first)
    from_other = other.data_to_send()  # proposal and exchange together
    one.receive_data(from_other)
    rest = one.data_to_send()
    secured = other.receive_data(rest)
    assert secured is not None
    from_other += other.data_to_send() + secured.channel.send(b"early") + secured.channel.send(b"data")

    again = handshake()
    sent, ended, received = again.data_to_send(), None, []
    for piece in split_at(from_other, cuts):
        if ended is None:
            ended = again.receive_data(piece)
            sent += again.data_to_send()
            received += list(ended.received) if ended else []
        else:
            received += ended.channel.receive_data(piece)
    assert sent == first + rest
    assert received == [b"early", b"data"]


# --- a hostile peer ---------------------------------------------------------------------------------------------------

Fields = dict[int, Any]


def rewritten(frame: bytes, change: Callable[[Fields], None]) -> bytes:
    """A handshake frame with some of its fields changed."""
    frames = U32Frames()
    frames.feed(frame)
    body = frames.next_frame_untrusted(1 << 20)
    assert body is not None, "one whole frame"
    message = protobuf.read_untrusted("test", body, range(1, 6))
    fields: Fields = {number: message.blob(number, 1 << 20) for number in range(1, 6)}
    change(fields)
    return u32_prefixed(protobuf.encode(fields.items()))


def proposal(change: Callable[[Fields], None]) -> bytes:
    return rewritten(Handshake(THEIRS, None, fixed_entropy("theirs")).data_to_send(), change)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda fields: fields.update({1: None}), "missing"),
        (lambda fields: fields.update({1: b"x" * 15}), "nonce has the wrong length"),
        (lambda fields: fields.update({1: b"x" * 17}), "too long"),
        (lambda fields: fields.update({1: 7}), "should be bytes"),
        (lambda fields: fields.update({2: None}), "missing"),
        (lambda fields: fields.update({2: b"\x08\x01\x12\x01x"}), "malformed"),
        (lambda fields: fields.update({2: bytes(3000)}), "too long"),
        (lambda fields: fields.update({2: OURS.public.serialised}), "talks to itself"),
        (lambda fields: fields.update({3: "P-192"}), "in common"),
        (lambda fields: fields.update({3: None}), "missing"),
        (lambda fields: fields.update({3: b"\xff"}), "not UTF-8"),
        (lambda fields: fields.update({4: "Blowfish"}), "in common"),
        (lambda fields: fields.update({4: "AES-256," * 100}), "too long"),
        (lambda fields: fields.update({5: "MD5"}), "in common"),
    ],
)
@pytest.mark.req("COA-01")
def test_bad_proposals(change: Callable[[Fields], None], reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        handshake().receive_data(proposal(change))


@pytest.mark.req("COA-01")
def test_another_peer_than_the_one_dialled() -> None:
    with pytest.raises(BadFrame, match=f"dialled {identity('RSA').peer}, found {THEIRS.peer}"):
        handshake(expected=identity("RSA").peer).receive_data(proposal(lambda fields: None))


@pytest.mark.req("COA-01")
def test_talking_to_oneself() -> None:
    one = handshake()
    with pytest.raises(BadFrame, match="talks to itself"):
        one.receive_data(one.data_to_send())
    with pytest.raises(BadFrame, match="talks to itself"):
        handshake().receive_data(handshake(seed="another nonce").data_to_send())


def exchanged() -> tuple[Handshake, bytes]:
    """Our side with the proposals done, and the exchange that would come next."""
    one, other = handshake(), Handshake(THEIRS, None, fixed_entropy("theirs"))
    assert one.receive_data(other.data_to_send()) is None
    other.receive_data(one.data_to_send())
    return one, other.data_to_send()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda fields: fields.update({2: fields[2][:-1] + bytes((fields[2][-1] ^ 1,))}), "not signed"),
        (lambda fields: fields.update({2: b""}), "not signed"),
        (lambda fields: fields.update({2: None}), "missing"),
        (lambda fields: fields.update({2: bytes(1025)}), "too long"),
        (lambda fields: fields.update({1: None}), "missing"),
        (lambda fields: fields.update({1: bytes(134)}), "too long"),
        (lambda fields: fields.update({1: fields[1][:-1] + bytes((fields[1][-1] ^ 1,))}), "not signed"),
        (lambda fields: fields.update({2: OURS.sign(b"something else")}), "not signed"),
    ],
)
@pytest.mark.req("COA-01")
def test_wrong_signature_and_other_bad_exchanges(change: Callable[[Fields], None], reason: str) -> None:
    one, exchange = exchanged()
    with pytest.raises(BadFrame, match=reason):
        one.receive_data(rewritten(exchange, change))


@pytest.mark.req("COA-01")
def test_a_signed_point_that_is_on_no_curve() -> None:
    one, other = handshake(), Handshake(THEIRS, None, fixed_entropy("theirs"))
    ours, theirs = one.data_to_send(), other.data_to_send()
    one.receive_data(theirs)
    point = b"\x04" + b"\xff" * 64
    exchange = protobuf.encode([(1, point), (2, THEIRS.sign(theirs[4:] + ours[4:] + point))])
    with pytest.raises(BadFrame, match="not a point"):
        one.receive_data(u32_prefixed(exchange))


@pytest.mark.req("COA-01")
def test_a_replayed_exchange_does_not_fit_another_nonce() -> None:
    _, recorded = exchanged()
    one = handshake(seed="a fresh nonce")
    one.receive_data(Handshake(THEIRS, None, fixed_entropy("theirs")).data_to_send())
    with pytest.raises(BadFrame, match="not signed"):
        one.receive_data(recorded)


@pytest.mark.req("COA-01")
def test_the_finish_is_tampered_with() -> None:
    one, other = handshake(), Handshake(THEIRS, None, fixed_entropy("theirs"))
    one.receive_data(other.data_to_send())
    other.receive_data(one.data_to_send())
    one.receive_data(other.data_to_send())
    finish = one.data_to_send()
    with pytest.raises(BadFrame, match="MAC"):
        other.receive_data(finish[:-1] + bytes((finish[-1] ^ 1,)))


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("wrong", [b"x" * 16, b"short", b"x" * 17])
def test_a_wrong_nonce_comes_back(wrong: bytes) -> None:
    one, other = handshake(), Handshake(THEIRS, None, fixed_entropy("theirs"))
    ours = one.data_to_send()
    one.receive_data(other.data_to_send())
    other.receive_data(ours)
    other._remote_nonce = wrong  # what it will send back
    one.receive_data(other.data_to_send())
    other.receive_data(one.data_to_send())
    with pytest.raises(BadFrame, match="nonce"):
        one.receive_data(other.data_to_send())


@pytest.mark.req("COA-01")
@pytest.mark.parametrize("step", ["propose", "exchange"])
def test_oversize_handshake_frames_are_refused_on_their_length(step: str) -> None:
    one = handshake() if step == "propose" else exchanged()[0]
    with pytest.raises(BadFrame, match="too long"):
        one.receive_data((SECIO_HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big"))


def test_nothing_goes_on_after_the_end() -> None:
    one = handshake()
    with pytest.raises(BadFrame):
        one.receive_data(b"\xff" * 4)
    with pytest.raises(UsageError, match="ended"):
        one.receive_data(b"")


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_wait_or_are_refused(data: bytes, framed: bool) -> None:
    with contextlib.suppress(BadFrame):
        assert handshake().receive_data(u32_prefixed(data) if framed else data) is None
