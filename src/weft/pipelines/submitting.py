"""A pipeline as a plain application: ``spark-submit archive.py --config archive.toml``.

It takes the same flags as ``weft pipeline run``. Lines go to standard error, the outcome to standard output.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from weft.errors import UsageError, WeftError
from weft.lake.settings import TABLE_NAME
from weft.pipelines.base import Outcome
from weft.pipelines.catalogue import find
from weft.pipelines.records import Records, default_directory
from weft.pipelines.running import Wish, run
from weft.visible import visible

OTHER_NAME: Final = re.compile(r"\w[\w-]*(\.[\w-]+)+")
SETTING: Final = re.compile(r"""((?:"[^"]*"|'[^']*'|[^"'=])+)=""")


def main(pipeline: Any, arguments: Sequence[str] | None = None) -> None:
    """Run the pipeline as the command line says, and end the process."""
    parser = argparse.ArgumentParser(prog=f"{pipeline.name}.py", description=find(pipeline.name).summary)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="TOML or YAML")
    parser.add_argument("--table", metavar="TABLE", help="its path or address, or catalog.namespace.table")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting above the file")
    parser.add_argument("--available-now", action="store_true", help="all there is, then end")
    parser.add_argument("--execute", action="store_true", help="do it, for jobs that plan first")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="where records of runs are kept")
    given = parser.parse_args(arguments)
    records = Records(given.state_dir or default_directory(os.environ))
    try:
        overrides = read_overrides(given.set) | ({} if given.table is None else table_overrides(given.table))
        wish = Wish(given.config, overrides, given.execute, given.available_now)
        outcome = run(pipeline, wish, records, _say)
    except WeftError as error:
        sys.exit(visible(f"weft: {error}"))
    sys.stdout.writelines(f"{visible(line)}\n" for line in outcome_lines(outcome))
    sys.exit(0 if outcome.ok else 1)


def read_overrides(settings: Sequence[str]) -> dict[str, object]:
    """Parse ``name=value`` into values by dotted names. Parts with dots are quoted: ``spark.conf."spark.a.b"=1g``. A
    value that is not TOML is taken as text."""
    overrides: dict[str, object] = {}
    for setting in settings:
        name, text = _split(setting)
        try:
            overrides[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            overrides[name] = text
    return overrides


def table_overrides(table: str) -> dict[str, object]:
    """What ``--table`` means: a name has two dots and no slash; everything else is a path. A name in another catalog's
    form is refused, because it would become a directory that nobody looks for."""
    if TABLE_NAME.fullmatch(table):
        return {"table.name": table}
    if OTHER_NAME.fullmatch(table) and not Path(table).exists():
        raise UsageError(
            f"--table {table} looks like a name, but names are catalog.namespace.table: for a directory of that name, "
            f"write ./{table}"
        )
    return {"table.path": table}


def _split(setting: str) -> tuple[str, str]:
    """Split at the first ``=`` that is not within quotes, into name and value."""
    found = SETTING.match(setting)
    if found is None:
        raise UsageError(f"--set takes NAME=VALUE, not '{setting}'")
    return found[1].strip(), setting[found.end() :]


def outcome_lines(outcome: Outcome) -> list[str]:
    rows = ["  ".join(f"{name}={value}" for name, value in row.items()) for row in outcome.rows]
    return [*rows, *outcome.warnings, outcome.summary]


def _say(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")
