"""Whether a run that reads all there is would find nothing. This is checked before Spark starts, which takes seconds.

The checkpoint says how far the query is. Then the source itself is asked whether that is the end, just as Spark would
ask it: so lost events are noticed, and progress is reported. Whatever this module does not understand is left to Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from weft.pipelines.settings import SparkSection
from weft.spark.offsets import Json
from weft.spark.options import parse_options
from weft.spark.session import LOCAL, MASTER, REMOTE_VARIABLE, is_submitted, prepare

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
FORMAT: Final = "v1"  # of Spark's offset log: this line, one about the batch, and one for each source


def runs_here(wanted: SparkSection) -> bool:
    """Whether Spark would run on this machine alone, and so keep its checkpoint in this machine's file system."""
    master = wanted.master or wanted.conf.get(MASTER) or LOCAL
    return not is_submitted() and REMOTE_VARIABLE not in os.environ and master.startswith("local")


def has_begun(checkpoint: Path) -> bool:
    """Whether Spark has finished the query's first batch. Until then, each start of the query asks the source where to
    begin, because the checkpoint says only where that batch ends."""
    return _last(checkpoint / COMMITS) is not None


def nothing_since(checkpoint: Path, options: Mapping[str, str]) -> bool:
    """Whether the last batch of this query is finished and there is nothing after it. ``options`` are the source's.
    Raises the WeftError with which the query would end."""
    return (begun := finished(checkpoint)) is not None and is_the_end(begun, options)


def finished(checkpoint: Path) -> Json | None:
    """The end of the last batch of a query with one source; None if it is not finished, or its log not understood."""
    last = _last(checkpoint / OFFSETS)
    if last is None or last != _last(checkpoint / COMMITS):
        return None
    try:
        found, _batch, offsets = (checkpoint / OFFSETS / str(last)).read_text().splitlines()
        return msgspec.json.decode(offsets, type=Json) if found == FORMAT else None
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def is_the_end(begun: Json, options: Mapping[str, str]) -> bool:
    """Whether the source has nothing after this."""
    prepare()
    from weft.spark.source import StreamReader  # needs pyspark

    reader = StreamReader(parse_options(options))
    try:
        reader.prepareForTriggerAvailableNow()
        return reader.latestOffset(begun, reader.getDefaultReadLimit()) == begun
    finally:
        reader.stop()


def _last(log: Path) -> int | None:
    """The number of the last batch in one of Spark's logs."""
    return max((int(path.name) for path in log.glob("*") if path.name.isdigit()), default=None)
