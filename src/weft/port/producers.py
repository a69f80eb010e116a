"""Producers are bound to their callers (SEC-03).

A producer id says which batches follow each other; a log uses it to recognise what was sent before. Another client that
knew the id could use its numbers, and what the producer sends after that would count as sent before. So a log never
sees the id that a client gave: it gets a digest of the id and the caller's owner, which no other caller can produce.
Subscribers see neither.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from weft.model.batch_header import PRODUCER_BYTES

PRODUCERS_KEPT: Final = 4096  # about 1 MiB: a client has one, and uses it for every batch


@lru_cache(PRODUCERS_KEPT)
def bound_producer(producer: bytes, owner: str) -> bytes:
    """The producer id for the log. It depends on the owner and not on the key, so that a new key of the same name can
    repeat what the old one was unsure of."""
    return blake2b(producer, digest_size=PRODUCER_BYTES, key=owner.encode(), person=b"weft producer").digest()
