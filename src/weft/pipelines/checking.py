"""Checks that are made before Spark starts, because Spark starts slowly and its errors are hard to read.

They cover the directories of tables and checkpoints, the context or files for connecting to the mesh, whether a table
that is read exists, and whether a node lets the run read what it wants.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from weft.client import Options
from weft.client.errors import is_retryable
from weft.errors import UsageError, WeftError
from weft.lake.tables import check_place
from weft.pipelines import lake
from weft.pipelines.settings import PipelineSettings, RunSection
from weft.spark.connection import Connection
from weft.spark.selection import parse_selection
from weft.spark.surveyor import RETRY_S, SPARK_UNAVAILABLE_S

ASKING: Final = Options(connect_timeout_s=2.0)  # short, because a person is waiting; a busy node is asked again


def check(settings: PipelineSettings, *, reads_tables: bool, submitted: bool) -> None:
    """Raise the first problem found. ``reads_tables``: the pipeline needs existing tables. ``submitted``: files may
    come with the job, so a file that is not here yet is no problem."""
    for name, section in _sections(settings):
        if isinstance(section, lake.TableSection):
            _check_table(name, section, is_there=reads_tables or section.is_input())
        elif isinstance(section, RunSection):
            _make_directory(f"{name}.checkpoint", section.checkpoint)
    if settings.uses_mesh():
        _check_mesh(Connection.from_options(settings.mesh.options()), submitted=submitted)


def ask_mesh(settings: PipelineSettings, say: Callable[[str], None]) -> None:
    """Ask a node whether this run may read what it wants; WeftError if it may not. If no node answers, wait as long as
    the source itself would, and say so."""
    connection = Connection.from_options(settings.mesh.options())
    wanted = settings.reads()
    patterns = () if wanted is None else parse_selection("subscribe", wanted).asked()
    give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
    is_told = False
    while True:
        try:
            with closing(connection.new_client(options=ASKING)) as client:
                client.owner()
                for pattern in patterns:
                    client.node_positions(pattern, history=False)
            return
        except WeftError as error:
            if not is_retryable(error) or time.monotonic() > give_up_s:
                raise
            if not is_told:
                say(f"waiting up to {SPARK_UNAVAILABLE_S:g} s for a node: {error}")
                is_told = True
            time.sleep(RETRY_S)


def input_bytes(settings: PipelineSettings, *, reads_tables: bool) -> int | None:
    """The size of the tables that are read; None if it reads none."""
    tables = [
        lake.open_table(section.settings())
        for _, section in _sections(settings)
        if isinstance(section, lake.TableSection) and (reads_tables or section.is_input())
    ]
    return sum(file.size_bytes for table in tables for file in table.files()) if tables else None


def _sections(settings: BaseModel) -> Iterator[tuple[str, BaseModel]]:
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        if isinstance(section, BaseModel):
            yield name, section


def _check_table(name: str, section: lake.TableSection, *, is_there: bool) -> None:
    settings = section.settings()
    try:
        check_place(settings, writing=not is_there)
    except lake.TableError as error:
        raise UsageError(f"{name}.path: {error}") from None
    if is_there and not lake.open_table(settings).exists():
        raise lake.TableError(
            f"there is no {section.format} table to read", setting=f"{name}.path", table=settings.path
        )


def _make_directory(setting: str, path: Path) -> None:
    """Make a directory that would be made later anyway, so that an obstacle shows now."""
    path = path.expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{setting}: cannot make the directory {path}: {error.strerror}") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise UsageError(f"{setting}: cannot write to the directory {path}: permission denied")


def _check_mesh(connection: Connection, *, submitted: bool) -> None:
    connection.addresses()
    if submitted:
        return
    access = connection.access()
    if access.tls is not None:
        access.tls.read()
