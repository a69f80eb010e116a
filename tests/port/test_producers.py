"""Producers as the log knows them."""

from __future__ import annotations

import pytest

from weft.model import Batch
from weft.port.producers import bound, bound_producer

ME, YOU = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.req("SEC-03")
def test_a_producer_is_another_one_for_everybody() -> None:
    ids = (b"p" * 16, b"q" * 16)
    found = {bound_producer(producer, owner) for producer in ids for owner in (ME, YOU)}
    assert len(found) == 4
    assert not found & set(ids)
    seen = bound_producer(ids[0], ME)
    assert bound_producer(seen, ME) != seen != bound_producer(seen, YOU), "who learns it has nothing to publish with"


def test_the_rest_of_a_batch_stays() -> None:
    batch = Batch.from_columns([b"a", b"b"], 7, producer=b"p" * 16, sequence=9)
    found = Batch.read_untrusted(bound(batch, ME).data)
    assert (list(found), found.sequence, found.producer) == (list(batch), 9, bound_producer(b"p" * 16, ME))
    unnumbered = Batch.from_columns([b"a"], 7)
    assert bound(unnumbered, ME) is unnumbered
