"""What readers see of a table's files that know nothing of its format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.lake.files import SUFFIX
from weft.lake.store import Facts, Store

HIDDEN_PREFIXES: Final = ("_", ".")  # what Spark and Arrow leave out of a listing


def visible(store: Store) -> Iterator[tuple[str, Facts]]:
    """Parquet files, by their path within the table."""
    for path, facts in store.files():
        if path.endswith(SUFFIX) and not any(step.startswith(HIDDEN_PREFIXES) for step in path.split("/")):
            yield path, facts
