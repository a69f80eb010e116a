"""How workers are started: with the installed pyspark, unless somebody has said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.spark import workers as room
from weft.spark.workers import use_python


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    made = {name: value for name, value in os.environ.items() if name not in (room.VARIABLE, room.HOME_VARIABLE)}
    monkeypatch.setattr(os, "environ", made)
    return made


@pytest.mark.req("SPK-06")
def test_workers_leave_the_zip_of_sources_out(tmp_path: Path, environ: dict[str, str]) -> None:
    use_python(tmp_path / "a cache")
    script = environ[room.VARIABLE]
    given = f"/x/pyspark.zip:/x/py4j-0.10-src.zip:{tmp_path}/my jobs.zip::/y/*"
    story = "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:]); print(sys.prefix)"
    ended = subprocess.run(
        [script, "-c", story, "a b", "*"],
        env=environ | {"PYTHONPATH": given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines() == [f"{tmp_path}/my jobs.zip::/y/*", "['a b', '*']", sys.prefix]
    found = subprocess.check_output([script, "-c", "import pyspark; print(pyspark.__file__)"], env=environ, text=True)
    assert ".zip" not in found


@pytest.mark.parametrize("given", [{"PYSPARK_PYTHON": "/opt/python"}, {"SPARK_HOME": "/opt/spark"}])
def test_what_was_chosen_is_left_alone(tmp_path: Path, environ: dict[str, str], given: dict[str, str]) -> None:
    environ.update(given)
    use_python(tmp_path)
    assert environ.get(room.VARIABLE) == given.get(room.VARIABLE)


def test_without_a_place_for_the_script_workers_start_as_ever(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "file").touch()
    environ[room.VARIABLE] = sys.executable
    use_python(tmp_path / "file")
    assert environ[room.VARIABLE] == sys.executable
