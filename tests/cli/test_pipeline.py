"""``weft pipeline``: what is told without Spark, and one pipeline from the file to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.cli.commands import Weft
from weft.configuration import flags
from weft.errors import UsageError
from weft.pipelines.base import Outcome
from weft.pipelines.catalogue import CATALOGUE, Entry
from weft.pipelines.records import QueryRecord, Records, RunRecord
from weft.pipelines.submitting import outcome_lines, read_overrides, table_overrides

RUNNING = RunRecord("night", "archive", 1, "local[2]", "a.toml", 1, 2_000_000, "running")


def test_all_pipelines_are_listed_with_their_files(weft: Weft) -> None:
    listed = weft("pipeline", "ls", "--json").document
    assert [each["name"] for each in listed] == [
        "archive", "packets", "health", "rollup", "objects", "compact", "replay", "audit",
    ]  # fmt: skip
    assert all(Path(each["file"]).is_file() for each in listed)
    assert "archive" in weft("pipeline", "ls").out


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_each_one_is_what_the_list_says(entry: Entry) -> None:
    assert entry.load().name == entry.name
    assert "main(PIPELINE)" in entry.file.read_text()  # for spark-submit


def test_a_pipeline_that_nobody_has(weft: Weft, tmp_path: Path) -> None:
    outcome = weft("pipeline", "run", "archiv", "--config", tmp_path / "a.toml")
    assert outcome.status == 1
    assert "did you mean archive?" in outcome.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read"),
        ("[run]\n", "run.checkpoint: is missing"),
        ("[sorce]\n", "did you mean source?"),
        ('[run]\ncheckpoint = "c"\ntrigger = "soon"\n', 'has to be "available-now" or a time like'),
        ('[source]\nsubscribe = "a..b"\n', "source.subscribe"),
    ],
)
def test_a_bad_file_is_refused_before_spark_starts(weft: Weft, tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "archive.toml"
    if text is not None:
        file.write_text(text)
    outcome = weft("pipeline", "run", "archive", "--config", file, "--state-dir", tmp_path / "runs")
    assert outcome.status == 1
    assert said in outcome.err
    assert not (tmp_path / "runs").exists()


ARCHIVE = """
[mesh]
nodes = ["127.0.0.1:1"]
insecure = true
[source]
subscribe = "plant.>"
[table]
path = "{place}/table"
[run]
checkpoint = "{place}/checkpoint"
"""


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize(
    ("pipeline", "settings", "said"),
    [
        ("archive", ["table.path=/proc/nope"], "table.path: cannot make the directory /proc/nope: "),
        ("archive", ["table.path={place}/file"], "table.path: cannot make the directory {place}/file: File exists"),
        ("archive", ["run.checkpoint={place}/file/c"], "run.checkpoint: cannot make the directory {place}/file/c: "),
        (
            "archive",
            ["table.path=ftp://bucket/events"],
            'table.path = "ftp://bucket/events": tables are in directories',
        ),
        ("archive", ["table.path=ftp://bucket/events"], "ftp: is not supported: mount the store"),
        (
            "archive",
            [
                "table.path=s3://bucket/events",
                "table.store.endpoint='http://127.0.0.1:1'",
                "table.store.access_key=env:HOME",
                "table.store.secret_key=env:HOME",
            ],
            "table.path: the store cannot be listed: no answer from the endpoint (table s3://bucket/events)",
        ),
        ("archive", ["table.store.secret_key=wJalrXUt"], "has to be file:PATH or env:NAME, where to find the key"),
        ("archive", ["run.checkpoint=s3a://bucket/c"], "Spark keeps its checkpoint in a directory here, not in s3a://"),
        ("archive", ["mesh.nodes=[]", "mesh.insecure=false", "mesh.context=nowhere"], "no context is called 'nowhere'"),
        ("archive", ["mesh.token='file:{place}/none'"], "option token: cannot read {place}/none"),
        ("archive", ["mesh.insecure=false", "mesh.tls_root={place}/none"], "cannot read {place}/none"),
        ("archive", ["layout.sort_by=['nope']"], "no such column to lay the table out by (column nope, known key, "),
        ("archive", ["spark.master=nonsense"], 'spark.master = "nonsense": has to be local[N], local[*], spark://'),
        ("archive", ["sorce.a=1", "source.b=1"], 'unknown setting "source.b" (given by flags); unknown sett'),
        ("compact", [], "there is no delta table to read (setting table.path, table {place}/table)"),
        ("audit", ["audit.subscribe='plant.>'"], "there is no delta table to read (setting table.path"),
    ],
)
def test_what_can_be_known_is_said_before_spark_starts(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: str, settings: list[str], said: str
) -> None:
    monkeypatch.setattr("weft.pipelines.running.session", None)  # to call it is an error
    (tmp_path / "file").write_text("")
    text = ARCHIVE.format(place=tmp_path)
    if pipeline != "archive":
        text = text.partition("[source]")[0] + f'[table]\npath = "{tmp_path}/table"\n'
    file = tmp_path / "pipeline.toml"
    file.write_text(text)
    flags = [part for each in settings for part in ("--set", each.format(place=tmp_path))]
    outcome = weft("pipeline", "run", pipeline, "--config", file, "--state-dir", tmp_path / "runs", *flags)
    assert outcome.status == 1
    assert said.format(place=tmp_path) in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.req("SPK-03")
@pytest.mark.parametrize(
    ("pipeline", "settings", "said"),
    [
        (
            "audit",
            ["audit.subscribe='plant.>'"],
            "this is not a table of raw events (table {place}/odd, missing",
        ),
        ("replay", ["replay.topics='plant.>'"], "this is not a table of raw events (table {place}/odd, missing"),
        ("archive", [], "the table is partitioned otherwise (table {place}/odd, there not at all, coming date)"),
        (
            "archive",
            ["typed.schema_file={place}/s.ddl", "layout.sort_by=['nope']"],
            "no such column to lay the table out",
        ),
        ("archive", ["typed.schema_file={place}/none.json"], "cannot read the schema {place}/none.json"),
    ],
)
def test_tables_that_do_not_fit_are_refused_before_spark_starts(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pipeline: str, settings: list[str], said: str
) -> None:
    monkeypatch.setattr("weft.pipelines.running.session", None)  # to call it is an error
    monkeypatch.setattr("weft.pipelines.running.ask_mesh", lambda *_: None)
    write_deltalake(tmp_path / "odd", pa.table({"x": [1]}))
    (tmp_path / "s.ddl").write_text("celsius DOUBLE")
    text = ARCHIVE.format(place=tmp_path)
    file = tmp_path / "pipeline.toml"
    file.write_text(text.partition("[source]")[0] + "[table]" if pipeline != "archive" else text)
    given = [each.format(place=tmp_path) for each in ["report=false", f"table.path={tmp_path}/odd", *settings]]
    flags = [part for each in given for part in ("--set", each)]
    outcome = weft("pipeline", "run", pipeline, "--config", file, "--state-dir", tmp_path / "runs", *flags)
    assert outcome.status == 1
    assert said.format(place=tmp_path) in " ".join(outcome.err.split())
    assert weft("pipeline", "status", "--state-dir", tmp_path / "runs", "--json").document[0]["state"] == "failed"


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ('spark.conf."spark.executor.memory"=1g', {"spark": {"conf": {"spark.executor.memory": "1g"}}}),
        ("spark.conf.'spark.a=b'='x=y'", {"spark": {"conf": {"spark.a=b": "x=y"}}}),
        ("run.trigger=5 seconds", {"run": {"trigger": "5 seconds"}}),
        ("audit.ignore_tail=true", {"audit": {"ignore_tail": True}}),
    ],
)
def test_settings_may_have_dots_in_quotes(setting: str, wanted: dict[str, object]) -> None:
    assert flags(read_overrides([setting])).values == wanted


@pytest.mark.parametrize("setting", ["=x", '"a=1', 'spark.conf."a=1', "a..b=1", ".a=1", 'a"b"=1', 'a.""=1'])
def test_settings_without_a_name(setting: str) -> None:
    with pytest.raises(UsageError, match=r"NAME=VALUE|is not the name of a setting"):
        flags(read_overrides([setting]))


@pytest.mark.parametrize(
    ("pipeline", "flag"), [("compact", "--available-now"), ("archive", "--execute"), ("audit", "--execute")]
)
def test_a_flag_that_means_nothing_here_is_refused(weft: Weft, tmp_path: Path, pipeline: str, flag: str) -> None:
    outcome = weft("pipeline", "run", pipeline, "--config", tmp_path / "a.toml", flag)
    assert (outcome.status, flag in outcome.err) == (1, True)


@pytest.mark.req("LAK-01")
@pytest.mark.parametrize("name", ["plant.events", "unity.main.plant.events"])
def test_a_name_of_another_form_makes_no_directory(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = weft("pipeline", "run", "archive", "--config", tmp_path / "a.toml", "--table", name)
    assert outcome.status == 2
    assert f"{name} looks like a name, but names are catalog.namespace.table" in outcome.err
    assert f"write ./{name}" in outcome.err
    (tmp_path / name).mkdir()
    assert table_overrides(name) == {"table.path": name}, "it is there"
    assert table_overrides("main.plant.events") == {"table.name": "main.plant.events"}
    assert table_overrides(f"./{name}") == {"table.path": f"./{name}"}


def test_a_bad_override_is_a_misuse(weft: Weft, tmp_path: Path) -> None:
    outcome = weft("pipeline", "run", "archive", "--config", tmp_path / "a.toml", "--set", "nonsense")
    assert (outcome.status, "NAME=VALUE" in outcome.err) == (2, True)


def test_an_outcome_is_told_with_its_warnings(weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = Outcome("1 stream agrees; not asked: b", [{"topic": "t"}], ok=False, warnings=["b cannot be asked: gone"])
    monkeypatch.setattr("weft.pipelines.running.run", lambda *_: found)
    run = ("pipeline", "run", "audit", "--config", tmp_path / "a.toml")
    told = weft(*run)
    assert told.status == 1
    assert told.out.splitlines()[-2:] == [*found.warnings, found.summary]
    assert outcome_lines(found) == ["topic=t", *found.warnings, found.summary]
    assert weft(*run, "--json").document == {
        "ok": False, "summary": found.summary, "rows": found.rows, "warnings": found.warnings,
    }  # fmt: skip


def test_status_tells_the_living_from_the_dead(weft: Weft, tmp_path: Path) -> None:
    assert weft("pipeline", "status", "--state-dir", tmp_path, "--json").document == []
    assert "no pipeline has run here" in weft("pipeline", "status", "--state-dir", tmp_path).err
    records = Records(tmp_path)
    records.write(RUNNING)
    assert weft("pipeline", "status", "--state-dir", tmp_path, "--json").document[0]["state"] == "died"
    with records.claim("night"):
        (shown,) = weft("pipeline", "status", "night", "--state-dir", tmp_path, "--json").document
        assert (shown["state"], shown["pipeline"]) == ("running", "archive")
        queries = (QueryRecord("archive", 7, 10, 1234.0, 1.5, 42, 999),)
        records.write(RunRecord("night", "archive", 1, "local[2]", "a.toml", 1, 2_000_000, "running", queries=queries))
        table = weft("pipeline", "status", "--state-dir", tmp_path).out
        assert all(word in table for word in ("night", "1,234", "42", "1.5 s", "999"))
    assert weft("pipeline", "status", "day", "--state-dir", tmp_path).status == 1


def test_stop_asks_and_waits(weft: Weft, tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(RUNNING)
    assert "is not running" in weft("pipeline", "stop", "night", "--state-dir", tmp_path).err
    with records.claim("night"):
        outcome = weft("pipeline", "stop", "night", "--wait", "0", "--state-dir", tmp_path)
        assert (outcome.status, records.is_asked_to_stop("night")) == (1, True)
        assert "has not stopped within 0 s" in outcome.err
    child = subprocess.Popen((sys.executable, "-c", STOPPABLE, str(tmp_path)), stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "claimed\n"
        assert "night has stopped" in weft("pipeline", "stop", "night", "--state-dir", tmp_path).out


STOPPABLE = """
import sys, time
from pathlib import Path
from weft.pipelines.records import Records
records = Records(Path(sys.argv[1]))
with records.claim("night"):
    print("claimed", flush=True)
    while not records.is_asked_to_stop("night"):
        time.sleep(0.01)
"""
