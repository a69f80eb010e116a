"""When Java is told to write an archive of classes, and when to use it. Without Java."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.spark.java import Java
from weft.spark.java_classes import ATTEMPTS_MAX, class_options

JAVA = Java(Path("/java"), 17, "here")
MAGIC = b"\xa8\xba\x0b\xf0"


def options(cache: Path, *, java: Java = JAVA, spark: str = "4.3.0", **environ: str) -> list[str]:
    return class_options(cache, java, spark, environ)


def place_in(given: list[str]) -> Path:
    return Path(given[0].partition("=")[2])


def test_the_second_run_writes_and_later_ones_use_it(tmp_path: Path) -> None:
    assert options(tmp_path) == [], "a cache that is new may be gone again"
    writing = options(tmp_path)
    assert writing[0].startswith("-XX:ArchiveClassesAtExit=")
    place_in(writing).write_bytes(bytes(100))  # a Java that still writes, or was killed
    assert options(tmp_path) == writing
    place_in(writing).write_bytes(MAGIC + bytes(100))
    using = options(tmp_path)
    assert using[0].startswith("-XX:SharedArchiveFile=")
    assert place_in(using).read_bytes().startswith(MAGIC)
    late = place_in(writing)
    late.write_bytes(MAGIC)  # of two that ran at once
    assert options(tmp_path) == using
    assert not late.exists(), "nothing is left lying about"


def test_where_every_java_is_killed_at_its_end_no_more_is_written(tmp_path: Path) -> None:
    options(tmp_path)
    for number in range(ATTEMPTS_MAX):
        place = place_in(options(tmp_path))
        place.with_name(place.name.replace(str(os.getpid()), f"x{number}")).write_bytes(bytes(100))
    assert options(tmp_path) == []


def test_another_java_or_spark_has_its_own(tmp_path: Path) -> None:
    options(tmp_path)
    names = {
        place_in(each).name.partition(".")[0]
        for each in (
            options(tmp_path),
            options(tmp_path, spark="4.4.0"),
            options(tmp_path, java=Java(Path("/other"), 17, "there")),
        )
    }
    assert len(names) == 3


@pytest.mark.parametrize("chosen", ["-Xshare:off", "-XX:SharedArchiveFile=/a.jsa", "-XX:ArchiveClassesAtExit=/b.jsa"])
def test_what_somebody_has_chosen_is_left_alone(tmp_path: Path, chosen: str) -> None:
    options(tmp_path)
    assert options(tmp_path, JDK_JAVA_OPTIONS=f"-Xmx1g {chosen}") == []


def test_without_a_place_java_starts_as_ever(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert options(tmp_path / "file") == []
    (tmp_path / "a b").mkdir()
    assert options(tmp_path / "a b") == options(tmp_path / "a b") == [], "options have spaces between them"
