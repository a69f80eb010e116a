"""Parameters and status as readers get them: in UTF-8, inflated, and no larger than allowed (0xA1, 0xA5)."""

from __future__ import annotations

import gzip
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire.emm_compact import (
    Command,
    Compression,
    Field,
    FieldType,
    Handler,
    Header,
    KeyRing,
    PayloadEncoding,
    Signer,
    compressed_if_smaller,
    content_untrusted,
    execute_untrusted,
    seal,
)
from weft.wire.emm_compact.content import EMC_CONTENT_BYTES_MAX
from weft.wire.reject import BadPacket, Reject

TEXT = "5 °C, naïve"
LONG = b"level=debug;" * 40


def encoded(encoding: PayloadEncoding) -> Field:
    return Field(FieldType.PAYLOAD_ENCODING, bytes((encoding,)))


def compressed(compression: Compression) -> Field:
    return Field(FieldType.COMPRESSION, bytes((compression,)))


def reason_of(value: bytes, *more: Field) -> Reject:
    with pytest.raises(BadPacket) as refusal:
        content_untrusted(value, more)
    return refusal.value.reason


@pytest.mark.req("EMC-10")
@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        (PayloadEncoding.UTF_8, "utf-8"),
        (PayloadEncoding.UTF_16, "utf-16"),
        (PayloadEncoding.UTF_16, "utf-16-be"),
        (PayloadEncoding.ISO_8859_1, "latin-1"),
        (PayloadEncoding.CP1252, "cp1252"),
    ],
)
def test_text_comes_as_utf_8(encoding: PayloadEncoding, codec: str) -> None:
    assert content_untrusted(TEXT.encode(codec), [encoded(encoding)]).decode() == TEXT


@pytest.mark.req("EMC-10")
@pytest.mark.parametrize(
    ("compression", "packed"),
    [
        (Compression.NONE, LONG),
        (Compression.ZSTD, pa.compress(LONG, codec="zstd", asbytes=True)),
        (Compression.DEFLATE, zlib.compress(LONG)),
        (Compression.LZ4, pa.compress(LONG, codec="lz4", asbytes=True)),
        (Compression.GZIP, gzip.compress(LONG, mtime=0)),
    ],
)
def test_contents_are_decompressed(compression: Compression, packed: bytes) -> None:
    assert content_untrusted(packed, [compressed(compression)]) == LONG


def test_without_a_word_and_raw_it_is_what_it_is() -> None:
    assert content_untrusted(b"\xff\x00", []) == content_untrusted(b"\xff\x00", [encoded(PayloadEncoding.RAW)])
    packed = zlib.compress(TEXT.encode("cp1252"))
    both = [compressed(Compression.DEFLATE), encoded(PayloadEncoding.CP1252)]
    assert content_untrusted(packed, both) == TEXT.encode()


@pytest.mark.parametrize("encoding", [PayloadEncoding.ASCII, PayloadEncoding.UTF_8, PayloadEncoding.UTF_16])
def test_what_is_not_in_its_encoding_is_refused(encoding: PayloadEncoding) -> None:
    assert reason_of(b"\xd8\x00\xff", encoded(encoding)) is Reject.TLV_VALUE


@pytest.mark.parametrize(
    ("compression", "codec"), [(Compression.ZSTD, "zstd"), (Compression.LZ4, "lz4"), (Compression.GZIP, "gzip")]
)
def test_bombs_are_refused(compression: Compression, codec: str) -> None:
    fits, bursts = bytes(EMC_CONTENT_BYTES_MAX), bytes(EMC_CONTENT_BYTES_MAX + 1)
    assert content_untrusted(pa.compress(fits, codec=codec, asbytes=True), [compressed(compression)]) == fits
    assert reason_of(pa.compress(bursts, codec=codec, asbytes=True), compressed(compression)) is Reject.BOMB
    assert reason_of(zlib.compress(bursts), compressed(Compression.DEFLATE)) is Reject.BOMB


@given(st.binary(max_size=200), st.sampled_from(Compression), st.sampled_from(PayloadEncoding))
def test_any_bytes_are_read_or_refused(value: bytes, compression: Compression, encoding: PayloadEncoding) -> None:
    try:
        content_untrusted(value, [compressed(compression), encoded(encoding)])
    except BadPacket as refusal:
        assert refusal.reason in (Reject.COMPRESSION, Reject.BOMB, Reject.TLV_VALUE)


@given(st.binary(max_size=400))
def test_what_we_compress_comes_back_and_is_never_larger(value: bytes) -> None:
    packed, more = compressed_if_smaller(value)
    assert len(packed) + sum(2 + len(each.value) for each in more) <= len(value)
    assert content_untrusted(packed, more) == value


@pytest.mark.req("EMC-07")
def test_a_handler_gets_the_content_and_never_a_bad_one() -> None:
    signer, node = Signer(b"g" * 32, b"e" * 32), bytes(16)
    ring = KeyRing((b"g" * 32,), {node: (signer.public_key,)})
    got: list[bytes] = []

    def run(parameters: bytes, *more: Field) -> None:
        body = Command("log", parameters, (Field(FieldType.NODE_ID, node), *more))
        packet = seal(Header(body.TYPE, 1, 2, 3), body, signer)
        execute_untrusted(packet, ring, {"log": Handler(bytes, got.append)})

    packed, more = compressed_if_smaller(LONG)
    run(packed, *more)
    with pytest.raises(BadPacket):
        run(b"junk", *more)
    assert got == [LONG]
