"""How a packet is recognised when it comes again: by 128 bits of a keyed hash over sender and message id.

The input of the hash comes from the judges: ``wire.emm.replay_mark`` (EMM-19) and ``wire.emm_compact.replay_mark``
(EMC-13).

The hash consists of four strongly universal hashes of 32 bits (multilinear, as in Lemire and Kaser: the upper half of
``a + sum(b[i] * word[i])`` modulo 2**64). Without the key, the chance of finding two packets that collide is no better
than one in 2**128. Numpy computes it for a whole column at once.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

from weft.wire.emm_compact import judge as emm_compact

KEY_BYTES: Final = 32
MARK_BYTES: Final = emm_compact.MARK_BYTES  # the longest mark; shorter ones count as padded with zeros
# One tag for each protocol, so that a mark of one protocol never equals a mark of the other
TAG_EMM, TAG_EMM_COMPACT = 1, 2

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]

_WORDS: Final = MARK_BYTES // 4
_HASHES: Final = 4
_HALF: Final = np.uint64(32)


def words_of(marks: list[bytes]) -> Words:
    """Turn the judges' marks into words; shorter marks are padded with zeros."""
    filled = b"".join(mark.ljust(MARK_BYTES, b"\0") for mark in marks)
    return np.frombuffer(filled, "<u4").reshape(len(marks), _WORDS)


class Hasher:
    """The hash of one pipeline. Its key is useful only for making packets look like replays."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "a key is 32 random bytes"
        stretched = hashlib.shake_256(key).digest(_HASHES * (_WORDS + 2) * 8)
        self._factors = np.frombuffer(stretched, "<u8").reshape(_HASHES, _WORDS + 2)

    def hash(self, words: Words, tags: Hashes) -> tuple[Hashes, Hashes]:
        """The upper and the lower 64 bits for each row of ``words``, which may have fewer columns than a mark.

        ``tags`` has one for each row, or one for all.
        """
        columns = [column.astype(np.uint64) for column in words.T]
        sums = []
        for first, of_tag, *factors in self._factors:
            total = np.full(len(words), first, np.uint64)
            total += of_tag * tags
            for factor, column in zip(factors, columns, strict=False):  # missing columns count as zero
                total += factor * column
            sums.append(total)
        a, b, c, d = sums
        return (a >> _HALF << _HALF) | b >> _HALF, (c >> _HALF << _HALF) | d >> _HALF
