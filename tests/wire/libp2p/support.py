"""What the tests of this room share: vectors, identities, a source of fixed bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from weft.wire.libp2p.private_keys import PrivateKey

TESTS = Path(__file__).parent.parent.parent
KEY_TYPES = ("RSA", "Ed25519", "secp256k1")


def cases(name: str) -> Any:
    """The cases of ``tests/vectors/libp2p/<name>.json``."""
    return json.loads((TESTS / "vectors" / "libp2p" / f"{name}.json").read_text())["cases"]


def peer_id_file(key_type: str) -> Any:
    """A JavaScript peer-id file: ``id``, ``privKey``, ``pubKey``."""
    return json.loads((TESTS / "interop" / "coaty" / f"peerid_{key_type}.json").read_text())


@cache
def identity(key_type: str) -> PrivateKey:
    return PrivateKey.from_base64(peer_id_file(key_type)["privKey"])


def fixed_entropy(seed: str) -> Callable[[int], bytes]:
    numbers = count()

    def draw(size: int) -> bytes:
        return hashlib.shake_256(f"{seed} {next(numbers)}".encode()).digest(size)

    return draw


def split_at(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    """``data`` in the pieces that ``cuts`` (any numbers) leave of it."""
    at = 0
    for cut in sorted({cut % (len(data) + 1) for cut in cuts}):
        yield data[at:cut]
        at = cut
    yield data[at:]
