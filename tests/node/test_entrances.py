"""The bounds of a node's ports, from its configuration and from the files that it may open."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.doors import TurnedAway
from weft.doors.descriptors import FileLimit
from weft.errors import UsageError
from weft.node.config.loading import load_config
from weft.node.entrances import COATY_SURPLUS_MAX, Entrances

pytestmark = pytest.mark.req("SEC-04")

ADDRESS = "10.0.0.1"


def entrances(directory: Path, files_max: int = 20_000, **limits: int) -> tuple[Entrances, list[TurnedAway]]:
    told: list[TurnedAway] = []
    config = load_config(None, {}, {"node": {"data": str(directory)}, "limits": limits})
    return Entrances(config, FileLimit(256, files_max, files_max), told.append), told


def test_what_the_process_can_have_bounds_all_ports_but_those_for_health(tmp_path: Path) -> None:
    made, told = entrances(tmp_path, 256)
    exmp, coaty = made.exmp("exmps", 4096), made.coaty()
    for number in range(made.files.connections):
        guest = (exmp, coaty)[number % 2].arrive(ADDRESS, 0.0)
        assert guest is not None
        guest.prove()
    assert exmp.arrive(ADDRESS, 0.0) is None
    assert [(each.port, each.reason) for each in told] == [("exmps", "node")]
    assert str(told[0]).startswith("too many connections for the number of files that this process may open (limit ")
    for door in (made.admin(), made.ca(), made.quic()):
        assert door.arrive(ADDRESS, 0.0) is not None


def test_settings_reach_the_doors(tmp_path: Path) -> None:
    made, told = entrances(tmp_path, strangers_of_host_max=4, connections_of_host_max=16)
    for door in (made.exmp("exmp", 4096), made.coaty(), made.quic()):
        for _ in range(4):
            assert door.arrive(ADDRESS, 0.0) is not None
        assert door.arrive(ADDRESS, 0.0) is None
        assert door.limits.of_address_max == 16
    assert {str(each) for each in told} == {"too many unauthenticated connections from one address (limit 4)"}


def test_where_a_handshake_is_all_there_is_one_address_gets_half(tmp_path: Path) -> None:
    made, _ = entrances(tmp_path)
    for door, most in ((made.coaty(), 1024 + COATY_SURPLUS_MAX), (made.quic(), 1024)):
        assert (door.limits.connections_max, door.limits.of_address_max) == (most, most // 2)


def test_too_few_files_are_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this process may have 100 files open"):
        entrances(tmp_path, 100)
