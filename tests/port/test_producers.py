"""Producers as the log knows them."""

from __future__ import annotations

import pytest

from weft.model import Batch
from weft.port.producers import bound_producer

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
    def known_as(producer: bytes) -> bytes:
        return bound_producer(producer, ME)

    for count in (1, 2, 65, 500):  # a few, and so many that Arrow reads them
        batch = Batch.from_columns([b"a" * 200] * count, 7, producer=b"p" * 16, sequence=9)
        found = Batch.read_untrusted(batch.with_base_offset(5).data, known_as)
        assert (list(found), found.sequence, found.producer) == (list(batch), 9, bound_producer(b"p" * 16, ME))
        assert found.base_offset == 0, "it has yet to be placed"
        again = Batch.read_untrusted(found.data)
        assert (again.producer, again.body_crc, again.data) == (found.producer, batch.body_crc, found.data)
        assert Batch.read_untrusted(found.data_at(3)).base_offset == 3
    unnumbered = Batch.from_columns([b"a"], 7)
    assert Batch.read_untrusted(unnumbered.data, known_as) == unnumbered
