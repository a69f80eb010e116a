from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.libp2p.support import split_at
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.secio.channel import SECIO_FRAME_BYTES_MAX, SECIO_SEND_BYTES_MAX, SecureChannel
from weft.wire.libp2p.secio.suite import CipherName, Exchange, HashName, Suite, stretch


def pair(
    cipher: CipherName = CipherName.AES256, hash_name: HashName = HashName.SHA256
) -> tuple[SecureChannel, SecureChannel]:
    first, second = stretch(Suite(Exchange.P256, cipher, hash_name), b"secret")
    return SecureChannel(hash_name, first, second), SecureChannel(hash_name, second, first)


# length:u32 = 5 + 32, then AES-256-CTR and HMAC-SHA256 with the keys that ``pair`` sends with, by the openssl command:
#   printf hello | openssl enc -aes-256-ctr -K <cipher_key> -iv <iv> | tee c; openssl dgst -sha256 -mac hmac < c
OPENSSL_FRAME = "00000025503d75d738b9f952b99e547f3de37dd1f842cbe36595a82d710f55054c3e585809d019cafc"


def test_a_frame_byte_by_byte() -> None:
    one, _ = pair()
    assert one.send(b"hello").hex() == OPENSSL_FRAME


@pytest.mark.parametrize("cipher", list(CipherName))
@pytest.mark.parametrize("hash_name", list(HashName))
@given(
    said=st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=80)), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
)
def test_both_directions_keep_their_place_in_the_key_stream(
    cipher: CipherName, hash_name: HashName, said: list[tuple[bool, bytes]], cuts: list[int]
) -> None:
    one, other = pair(cipher, hash_name)
    for sender, receiver in ((one, other), (other, one)):
        messages = [message for from_one, message in said if from_one == (sender is one)]
        wire = b"".join(map(sender.send, messages))
        received = [plaintext for piece in split_at(wire, cuts) for plaintext in receiver.receive_data(piece)]
        assert received == messages


def test_nothing_makes_no_frame() -> None:
    assert pair()[0].send(b"") == b""


def test_long_data_goes_out_in_several_frames() -> None:
    one, other = pair()
    data = bytes(SECIO_SEND_BYTES_MAX + 1)
    assert [len(plaintext) for plaintext in other.receive_data(one.send(data))] == [SECIO_SEND_BYTES_MAX, 1]


@pytest.mark.req("COA-01")
def test_one_flipped_bit_anywhere_is_noticed() -> None:
    wire = pair()[0].send(b"pay 100")
    for at in range(4, len(wire)):
        _, other = pair()
        with pytest.raises(BadFrame, match="tampered"):
            other.receive_data(wire[:at] + bytes((wire[at] ^ 1,)) + wire[at + 1 :])


@pytest.mark.req("COA-01")
def test_a_broken_channel_stays_broken() -> None:
    one, other = pair()
    bad, good = one.send(b"bad"), one.send(b"good")
    for data in (bad[:-1] + bytes((bad[-1] ^ 1,)), good, b""):
        with pytest.raises(BadFrame, match="tampered"):
            other.receive_data(data)


def test_a_repeated_frame_comes_out_as_noise() -> None:
    one, other = pair()
    wire = one.send(b"pay 100")
    assert other.receive_data(wire) == [b"pay 100"]
    assert other.receive_data(wire) != [b"pay 100"]


@pytest.mark.req("COA-01")
def test_oversize_frame_is_refused_on_its_length() -> None:
    _, other = pair()
    assert other.receive_data(SECIO_FRAME_BYTES_MAX.to_bytes(4, "big")) == []
    _, other = pair()
    with pytest.raises(BadFrame, match="too long"):
        other.receive_data((SECIO_FRAME_BYTES_MAX + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("size", [0, 1, 31])
def test_a_frame_shorter_than_its_mac(size: int) -> None:
    with pytest.raises(BadFrame, match="shorter"):
        pair()[1].receive_data(size.to_bytes(4, "big") + bytes(size))


@given(st.binary(max_size=100))
def test_any_bytes_wait_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        assert pair()[1].receive_data(data) == []
