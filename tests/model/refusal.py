"""Two good batches to be spoilt, one by hand and one by pyarrow, and what the reader says to a bad one."""

from __future__ import annotations

import pytest

from tests.model.forge import THREE, THREE_HEAD
from weft.errors import PeerError
from weft.model import BadBatch, Batch, Event

GOOD = THREE.batch(THREE_HEAD)
BY_PYARROW = Batch.from_events([Event(b"one", 7), Event(b"two", 5, key=b"k", headers={"a": "b"})]).data


def refusal(data: bytes) -> str:
    with pytest.raises(BadBatch) as caught:
        Batch.read_untrusted(data)
    assert isinstance(caught.value, PeerError)
    return str(caught.value)
