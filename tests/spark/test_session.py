"""What is decided before a Spark session is made: which Spark, and how much its Java says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlparse

import pytest

from weft.errors import UsageError
from weft.spark import session as room


@pytest.mark.parametrize(
    ("master", "variable", "wanted"),
    [
        (None, None, None),
        (None, "sc://h:15002", "sc://h:15002"),
        ("sc://other:1", "sc://h:15002", "sc://other:1"),
        ("local[2]", "sc://h:15002", None),  # who names a master means it
        ("spark://h:7077", None, None),
    ],
)
def test_a_connect_server_is_used_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, master: str | None, variable: str | None, wanted: str | None
) -> None:
    monkeypatch.delenv(room.REMOTE_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(room.REMOTE_VARIABLE, variable)
    assert room._remote(master) == wanted


@pytest.mark.req("LAK-05")
def test_what_spark_connect_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(UsageError, match=r"pip install 'weft\[connect\]'"):
        room.session("x", master="sc://127.0.0.1:1")


def test_sparks_java_is_quiet_unless_somebody_has_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (room.SUBMIT_VARIABLE, "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    environ = dict(os.environ)
    monkeypatch.setattr(os, "environ", environ)
    room._quiet("fatal", ["-XX:SharedArchiveFile=/a.jsa"])
    settings, level, other = environ[room.SUBMIT_VARIABLE].split()
    assert other == "-XX:SharedArchiveFile=/a.jsa"
    assert level == "-Dweft.spark.log=fatal"
    assert "weft.spark.log" in Path(urlparse(settings.partition("=")[2]).path).read_text()
    room._quiet("error", [])
    assert level in environ[room.SUBMIT_VARIABLE], "what is set is left alone"
