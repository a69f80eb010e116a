"""Compressed bodies, and those that only say so."""

from __future__ import annotations

import struct
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.model import forge
from tests.model.forge import THREE, THREE_HEAD
from tests.model.refusal import GOOD, refusal
from weft.limits import BATCH_BYTES_MAX
from weft.model import Batch, Compression

MESSAGE = GOOD[64:]


def packed(compression: Compression, message: bytes = MESSAGE) -> bytes:
    return bytes(pa.compress(message, codec=compression, asbytes=True))


@pytest.mark.parametrize(("flags", "codec"), [(1, "lz4"), (2, "zstd")])
def test_compressed_bodies(flags: int, codec: Compression) -> None:
    def sealed(length: int, compressed: bytes) -> bytes:
        return forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", length) + compressed)

    good = packed(codec)
    assert list(Batch.read_untrusted(sealed(len(MESSAGE), good))) == list(Batch.read_untrusted(GOOD))

    # Longer than stated, and shorter: nothing may be made up for what is missing.
    for stated in (0, 1, len(MESSAGE) - 1, len(MESSAGE) + 1, len(MESSAGE) + 8, BATCH_BYTES_MAX - 64):
        assert "message" in refusal(sealed(stated, good)) or "body cannot" in refusal(sealed(stated, good))
    shorter = packed(codec, MESSAGE[:-8])
    assert refusal(sealed(len(MESSAGE), shorter))
    for stated in (BATCH_BYTES_MAX - 63, 0xFFFFFFFF):
        assert f"message too long (at 64, need {stated}, limit {BATCH_BYTES_MAX - 64})" in refusal(sealed(stated, good))
    for broken in (b"", good[:-1], good[:10], b"x" + good, good + b"x", good + good, MESSAGE, packed_otherwise(codec)):
        assert refusal(sealed(len(MESSAGE), broken))
    for length in (b"\1", b"\1\0\0"):
        cut = forge.seal(replace(THREE_HEAD, flags=flags), length)
        assert "compressed body is cut off" in refusal(cut)


def packed_otherwise(codec: Compression) -> bytes:
    return packed("zstd" if codec == "lz4" else "lz4")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_compressed_is_checked_like_the_rest(codec: Compression) -> None:
    bad = THREE.spoilt(forge.NAME_DATA, b"a\xff").batch(THREE_HEAD)[64:]
    flags = 1 if codec == "lz4" else 2
    data = forge.seal(replace(THREE_HEAD, flags=flags), struct.pack("<I", len(bad)) + packed(codec, bad))
    assert "Invalid UTF8" in refusal(data)
