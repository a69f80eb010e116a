"""What can be said of a run before Spark starts, which takes long and then fails in two languages.

Directories of tables and checkpoints, the context or the files that say where the mesh is and as whom, and whether
there is a table where one has to be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from weft.errors import UsageError
from weft.lake.tables import check_place
from weft.pipelines import lake
from weft.pipelines.settings import PipelineSettings, RunSection
from weft.spark.connection import Connection


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
