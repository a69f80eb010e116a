"""What ``weft pipeline`` does."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.markup import escape

from weft.cli.console import err, fail, out
from weft.cli.options import misused
from weft.cli.tables import human_time, print_json, print_table
from weft.errors import UsageError
from weft.pipelines.base import Outcome
from weft.pipelines.catalogue import CATALOGUE, find
from weft.pipelines.records import Records, RunRecord, default_directory

LOOK_INTERVAL_S: Final = 0.2


def run_pipeline(
    name: str,
    config: Path,
    master: str | None,
    table: str | None,
    settings: list[str],
    available_now: bool,
    execute: bool,
    json: bool,
    state_dir: Path | None,
) -> None:
    from weft.pipelines.running import Wish, run
    from weft.pipelines.submitting import read_overrides, table_overrides
    from weft.spark.session import prepare

    entry = find(name)
    try:
        overrides = read_overrides(settings) | ({} if table is None else table_overrides(table))
    except UsageError as error:
        misused(str(error))
    if master is not None:
        overrides["spark.master"] = master
    prepare()  # before the pipeline's own imports, which need Spark
    wish = Wish(config, overrides, execute, available_now)
    outcome = run(entry.load(), wish, _records(state_dir), lambda line: err.print(escape(line), style="dim"))
    if json:
        print_json(
            {"ok": outcome.ok, "summary": outcome.summary, "rows": outcome.rows, "warnings": list(outcome.warnings)}
        )
    else:
        _print_outcome(outcome)
    raise SystemExit(0 if outcome.ok else 1)


def show_catalogue(json: bool) -> None:
    if json:
        print_json([{"name": each.name, "summary": each.summary, "file": str(each.file)} for each in CATALOGUE])
        return
    print_table(["PIPELINE", "", "FILE"], [[each.name, each.summary, str(each.file)] for each in CATALOGUE], names=3)


def show_status(name: str | None, json: bool, state_dir: Path | None) -> None:
    records = _records(state_dir)
    found = records.all() if name is None else [records.get(name)]
    if json:
        print_json([msgspec.to_builtins(record) | {"state": _state(record, alive)} for record, alive in found])
        return
    if not found:
        err.print(f"no pipeline has run here yet ({escape(str(records.directory))})", style="dim")
        return
    headings = ["RUN", "PIPELINE", "STATE", "QUERY", "UPDATED", "BATCH", "ROWS/S", "LAG", "BATCH TIME", "ROWS"]
    print_table(headings, [row for record, alive in found for row in _status_rows(record, alive)], names=5)
    for record, _ in found:
        if record.error:
            err.print(f"{escape(record.name)}: {escape(record.error)}", style="red")


def stop_pipeline(name: str, wait_s: float, state_dir: Path | None) -> None:
    records = _records(state_dir)
    record, alive = records.get(name)
    if not alive:
        err.print(f"{escape(name)} is not running: it {_state(record, alive)}", style="dim")
        return
    records.ask_to_stop(name)
    deadline_s = time.monotonic() + wait_s
    while records.is_alive(name):
        if time.monotonic() > deadline_s:
            fail(
                f"{name} has not stopped within {wait_s:g} s; it was asked to stop and may still do so (process "
                f"{record.pid})"
            )
        time.sleep(LOOK_INTERVAL_S)
    out.print(f"{escape(name)} has stopped")


def _records(state_dir: Path | None) -> Records:
    return Records(state_dir or default_directory(os.environ))


def _state(record: RunRecord, alive: bool) -> str:
    """As the record says, unless the process died without recording how it ended."""
    return "died" if not alive and record.state in ("starting", "running") else record.state


def _status_rows(record: RunRecord, alive: bool) -> list[list[str]]:
    first = [record.name, record.pipeline, _state(record, alive)]
    if not record.queries:
        return [[*first, "", human_time(record.updated_us), "", "", "", "", ""]]
    return [
        [
            *first,
            query.query,
            human_time(record.updated_us),
            str(query.batch) if query.batch >= 0 else "",
            f"{query.rows_per_s:,.0f}",
            "" if query.lag_events is None else f"{query.lag_events:,}",
            f"{query.batch_s:.1f} s",
            f"{query.rows_total:,}",
        ]
        for query in record.queries
    ]


def _print_outcome(outcome: Outcome) -> None:
    if outcome.rows:
        headings = list(outcome.rows[0])
        print_table([heading.upper() for heading in headings], [_cells(row, headings) for row in outcome.rows])
    for warning in outcome.warnings:
        out.print(escape(warning), style="yellow")
    out.print(escape(outcome.summary), style="" if outcome.ok else "red")


def _cells(row: dict[str, Any], headings: list[str]) -> list[str]:
    return [f"{value:,}" if isinstance(value := row.get(name, ""), int) else str(value) for name in headings]
