"""What an island is called, and who keeps to which name."""

from __future__ import annotations

from pathlib import Path

from weft.gateway.coaty.islands import Island


def test_who_is_alone_takes_its_own_name_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "coaty" / "island"
    one = Island("", path, "peer-b")
    assert not one.choose([])
    assert (one.name, path.read_text()) == ("peer-b", "peer-b")
    assert Island("", path, "peer-of-another-key").name == "peer-b"


def test_who_has_just_come_takes_the_name_of_those_who_are_there(tmp_path: Path) -> None:
    newcomer = Island("", tmp_path / "island", "peer-a")
    assert newcomer.choose(["peer-b"]), "though its own comes first"
    assert newcomer.name == "peer-b"
    assert Island("", tmp_path / "island", "peer-a").name == "peer-b"


def test_islands_that_grow_together_agree(tmp_path: Path) -> None:
    one, other = Island("", tmp_path / "one", "peer-a"), Island("", tmp_path / "other", "peer-b")
    for island in (one, other):
        island.choose([])
    assert not one.choose(["peer-b"])
    assert other.choose(["peer-a"])
    assert one.name == other.name == "peer-a"


def test_a_configured_name_stays(tmp_path: Path) -> None:
    fixed = Island("hall 7", tmp_path / "island", "peer-a")
    assert not fixed.choose(["peer-b"])
    assert fixed.name == "hall 7"
    assert not (tmp_path / "island").exists()


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "island"
    Island("", path, "peer-a").choose([])
    path.write_bytes(b"\x00\xff" * 200)
    assert Island("", path, "peer-a").name == "peer-a"
