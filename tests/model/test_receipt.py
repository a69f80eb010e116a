"""What a publisher gets back."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.model import Epoch, EventId, NodeId, Position, Receipt, Stream, Topic

STREAM = Stream(Topic("plant.line1.temp"), NodeId("node-a"), 3)


def receipt(first_offset: int = 100, count: int = 10, copies: int = 1, epoch: int = 7) -> Receipt:
    return Receipt(STREAM, Epoch(epoch), first_offset, count, copies)


@pytest.mark.req("MSH-01")
def test_a_receipt_names_its_events() -> None:
    assert receipt().first == EventId(STREAM, Epoch(7), 100)
    assert receipt().last == EventId(STREAM, Epoch(7), 109)
    assert receipt().next_position == Position(STREAM, Epoch(7), 110)


def test_a_receipt_says_how_safe_it_is() -> None:
    assert receipt(copies=1).safety == "synced"
    assert receipt(copies=3).safety == "copies=3"
    assert str(receipt(copies=3)) == "plant.line1.temp@node-a/3:e7:100+10 copies=3"


@pytest.mark.parametrize(
    "wrong",
    [{"count": 0}, {"copies": 0}, {"epoch": 0}, {"first_offset": -1}, {"first_offset": (1 << 63) - 1, "count": 1}],
)
def test_impossible_receipts(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        receipt(**wrong)
