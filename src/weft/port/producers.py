"""Producers are bound to who publishes (SEC-03).

A producer id says which batches follow each other; a log knows by it what was sent before. Somebody else who knew it
could use up its numbers, and what the producer then sends would count as sent before. So a log never sees the id that a
client gave: it gets a digest of it and of the caller's owner, which no other caller can come to. Subscribers see
neither.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from weft.model.batch_header import PRODUCER_BYTES

PRODUCERS_KEPT: Final = 4096  # about 1 MiB: a client has one, and uses it for every batch


@lru_cache(PRODUCERS_KEPT)
def bound_producer(producer: bytes, owner: str) -> bytes:
    """As the log is to know it. By the owner and not by the key: a new key of the same name can repeat what the old one
    was not sure of."""
    return blake2b(producer, digest_size=PRODUCER_BYTES, key=owner.encode(), person=b"weft producer").digest()
