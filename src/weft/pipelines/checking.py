"""What can be said of a run before Spark starts, which takes long and then fails in two languages.

Directories of tables and checkpoints, the context or the files that say where the mesh is and as whom, whether there is
a table where one has to be, and whether a node lets the run read what it wants.
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

ASKING: Final = Options(connect_timeout_s=2.0)  # a person waits for the first answer; a busy node is asked again


def check(settings: PipelineSettings, *, reads_tables: bool, submitted: bool) -> None:
    """Raise the first thing that is wrong. ``reads_tables``: it is for tables that are there. ``submitted``: files may
    come with the job, so those that are not here yet are not missed."""
    for name, section in _sections(settings):
        if isinstance(section, lake.TableSection):
            _check_table(name, section, is_there=reads_tables or section.is_input())
        elif isinstance(section, RunSection):
            _make_directory(f"{name}.checkpoint", section.checkpoint)
    if settings.uses_mesh():
        _check_mesh(Connection.from_options(settings.mesh.options()), submitted=submitted)


def ask_mesh(settings: PipelineSettings, say: Callable[[str], None]) -> None:
    """Have a node confirm that this run may read what it wants; WeftError if it may not. While no node answers, wait
    for as long as the source itself would, and say so."""
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
    """It would be made anyway; what is in the way is better heard of now."""
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
