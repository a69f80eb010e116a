"""What lies in a table's directory, as readers that know nothing of its format see it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from weft.pipelines.lake.files import SUFFIX

HIDDEN_PREFIXES = ("_", ".")  # what Spark and Arrow leave out of a listing


def visible(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Parquet files below ``root``, by their path within it. Those that go meanwhile are not there."""
    for place, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if not name.startswith(HIDDEN_PREFIXES))
        for name in sorted(names):
            file = Path(place, name)
            if name.endswith(SUFFIX) and not name.startswith(HIDDEN_PREFIXES) and (facts := facts_of(file)):
                yield file.relative_to(root).as_posix(), facts


def facts_of(file: Path) -> os.stat_result | None:
    """Size and time of a file; None if it has gone."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None
