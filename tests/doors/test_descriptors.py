"""What the files that a process may open are for."""

from __future__ import annotations

import pytest

from weft.doors.descriptors import CONNECTIONS_MIN, plan
from weft.errors import UsageError
from weft.log.rocks_store import files_for_log

pytestmark = pytest.mark.req("SEC-04")


@pytest.mark.parametrize("limit", [256, 512, 1024, 4096, 65_536, 1_048_576])
def test_nothing_is_promised_twice(limit: int) -> None:
    files = plan(limit, files_for_log(limit), dialled_max=10)
    assert files.log + files.node + files.admin + files.ca + files.connections == limit
    assert files.connections >= CONNECTIONS_MIN and files.log >= 64
    assert 8 <= files.admin <= 64 and 8 <= files.ca <= 256


def test_too_few_are_refused_with_what_is_needed() -> None:
    with pytest.raises(UsageError, match=r"may have 128 files open, and a node needs at least \d+: raise the limit"):
        plan(128, files_for_log(128), dialled_max=8)


def test_peers_that_are_dialled_have_their_places() -> None:
    few, many = (plan(1024, 100, dialled_max=each) for each in (0, 300))
    assert few.connections - many.connections == 300
