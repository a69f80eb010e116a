"""What a pipeline is: a name, its settings, and a function that starts Spark queries or does one job. ``catalogue``
says what each pipeline is for, and can be read without Spark.

Each pipeline is a module of its own with a ``PIPELINE`` in it, and a ``main`` so that ``spark-submit`` can run the file
as it is. ``weft.pipelines.running`` makes the session, shows progress and stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from weft.pipelines.settings import JobSettings, StreamingSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from weft.pipelines.settings import MeshSection, SourceSection

StreamingT = TypeVar("StreamingT", bound=StreamingSettings)
JobT = TypeVar("JobT", bound=JobSettings)


# What is done beside the queries while they run. What it gives when it is entered tells, as text, what was done.
Beside = Callable[
    ["SparkSession", StreamingT, "Sequence[StreamingQuery]", Callable[[str], None]], AbstractContextManager[object]
]


@dataclass(frozen=True, slots=True)
class Streaming(Generic[StreamingT]):
    """A pipeline that starts streaming queries. ``start`` gives their checkpoints below ``settings.run.checkpoint``."""

    name: str
    settings: type[StreamingT]
    start: Callable[[SparkSession, StreamingT], Sequence[StreamingQuery]]
    beside: Beside[StreamingT] | None = None
    is_idle: Callable[[StreamingT], bool] | None = None  # whether a run would find nothing to do; needs no Spark
    check: Callable[[StreamingT], None] | None = None  # raises what can be known of its tables without Spark


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: a sentence, perhaps a table to show, further remarks for people, and whether all is well."""

    summary: str
    rows: Sequence[dict[str, object]] = ()
    ok: bool = True
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JobRun:
    """What the caller passes to a job."""

    execute: bool  # False: only say what would be done, if the job supports that
    say: Callable[[str], None] = field(repr=False)  # progress for people, a line at a time


@dataclass(frozen=True, slots=True)
class Job(Generic[JobT]):
    """A pipeline that does one thing and ends."""

    name: str
    settings: type[JobT]
    run: Callable[[SparkSession, JobT, JobRun], Outcome]
    plans_first: bool = False  # does nothing without --execute
    check: Callable[[JobT], None] | None = None  # raises what can be known of its tables without Spark


Pipeline = Streaming[StreamingT] | Job[JobT]


def read_topics(spark: SparkSession, mesh: MeshSection, source: SourceSection, group: str) -> DataFrame:
    """A stream of the events that the configuration names."""
    return spark.readStream.format("weft").options(**mesh.options(), **source.options(group)).load()
