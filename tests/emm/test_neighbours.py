"""The neighbours of an EMM node, one by one."""

from __future__ import annotations

from uuid import UUID

import pytest

from weft.emm.neighbours import Call, Due, Neighbours
from weft.limits import DATAGRAM_SOUGHT_MAX
from weft.wire.udp import Address

ME = UUID(int=1)
WANTED: Address = ("10.1.0.1", 4700)


@pytest.mark.req("EMM-27")
def test_a_wanted_neighbour_is_sought_again_when_it_is_lost_together_with_hundreds_of_others() -> None:
    """The others, sought for a while, used to take all places: an error that ended the gateway's upkeep."""
    neighbours = Neighbours(ME, 0.0)
    neighbours.seek(WANTED, 0.0)
    for number in range(DATAGRAM_SOUGHT_MAX):
        neighbours.hello(UUID(int=10 + number).bytes, (f"10.0.0.{number}", 4700), b"", 0.0)
    neighbours.hello(UUID(int=2).bytes, WANTED, b"", 0.0)
    neighbours.due(0.0)
    assert Due(Call.HELLO, WANTED) in neighbours.due(1000.0)
    assert len(neighbours) == 0
