"""Runs a pipeline: one session, its queries or its job, a line for every batch, and a record of how it is doing."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.configuration import Source, flags, read_file, validated
from weft.errors import UsageError, WeftError
from weft.pipelines.base import Job, JobRun, Outcome, Streaming
from weft.pipelines.checking import ask_mesh, check, input_bytes
from weft.pipelines.idle import runs_here
from weft.pipelines.progress import line_of, read_progress
from weft.pipelines.records import QueryRecord, Records, RunRecord
from weft.pipelines.reporting import Reporter
from weft.pipelines.settings import AVAILABLE_NOW, PipelineSettings, SparkSection
from weft.pipelines.shuffling import SHUFFLE_PARTITIONS, choose_partitions
from weft.pipelines.tracing import BatchTraces
from weft.spark.connection import Connection
from weft.spark.session import MASTER, is_submitted, session
from weft.telemetry import traced_by_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ADAPTIVE: Final = "spark.sql.adaptive.enabled"
SLOW_START: Final = "Python worker failed to connect back"
SLOW_STARTS_MAX: Final = 12  # each takes ten seconds: two minutes, for a machine with ten times its load
SPARK_MODULES: Final = ("pyspark.", "py4j.", "grpc.")  # modules whose errors come from Spark
CAUSE: Final = re.compile(r"^: (?:[\w.$]+: )?(.+)$", re.MULTILINE)  # finds the cause in Java's error text
LOOK_INTERVAL_S: Final = 0.5  # how soon a request to stop and the end of a batch are noticed


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person who starts a run asks for."""

    config: Path
    overrides: dict[str, object]  # by dotted names; they override the file
    execute: bool = False
    available_now: bool = False


def run(pipeline: Any, wish: Wish, records: Records, say: Callable[[str], None]) -> Outcome:
    """Run the pipeline to its end; return what it did, or raise WeftError. ``say`` gets lines for people."""
    _check_wish(pipeline, wish)
    overrides = dict(wish.overrides)
    if wish.available_now:
        overrides["run.trigger"] = AVAILABLE_NOW
    settings = validated(pipeline.settings, [Source(str(wish.config), read_file(wish.config)), flags(overrides)])
    name = settings.run_name(pipeline.name)
    reads_tables = isinstance(pipeline, Job)
    check(settings, reads_tables=reads_tables, submitted=is_submitted())
    if settings.uses_mesh():
        ask_mesh(settings, say)
    with (
        records.claim(name),
        _reporting(settings, records, say),
        traced_by_environment(os.environ, "weft-pipeline"),
    ):
        connection = Connection.from_options(settings.mesh.options())
        traces = BatchTraces.if_configured(name, connection.client) if settings.uses_mesh() else None
        record = RunRecord(
            name=name,
            pipeline=pipeline.name,
            pid=os.getpid(),
            master=settings.spark.master or "local[*]",
            config=str(wish.config),
            started_us=_now_us(),
            updated_us=_now_us(),
            state="starting",
        )
        records.write(record)
        try:
            if _is_idle(pipeline, settings):
                query = QueryRecord(name)
                ended = msgspec.structs.replace(record, state="ended", queries=(query,), updated_us=_now_us())
                records.write(ended)
                return Outcome(f"{_total('done', {name: query})}; nothing is new, and Spark was not started")
            if pipeline.check is not None:
                pipeline.check(settings)
            with spark_told():
                outcome, record = _with_spark(pipeline, settings, wish.execute, record, records, traces, say)
        except BaseException as error:
            records.write(msgspec.structs.replace(record, state="failed", error=str(error), updated_us=_now_us()))
            raise
        records.write(msgspec.structs.replace(record, updated_us=_now_us()))
    return outcome


def _with_spark(
    pipeline: Any,
    settings: Any,
    execute: bool,
    record: RunRecord,
    records: Records,
    traces: BatchTraces | None,
    say: Callable[[str], None],
) -> tuple[Outcome, RunRecord]:
    """The part of a run that needs Spark; Spark is stopped at its end."""
    say("starting Spark")
    is_job = isinstance(pipeline, Job)
    spark = _session(record.name, settings.spark, is_job=is_job)
    record = msgspec.structs.replace(record, master=spark.conf.get(MASTER, ""), state="running")
    try:
        if SHUFFLE_PARTITIONS not in settings.spark.conf and not is_submitted():
            say(choose_partitions(spark, input_bytes(settings, reads_tables=is_job)))
        match pipeline:
            case Streaming():
                queries = started(pipeline, spark, settings, say)
                with _beside(pipeline, spark, settings, queries, say) as beside:
                    outcome, record = watch(queries, record, records, traces, say)
                if told := str(beside or ""):
                    outcome = replace(outcome, summary=f"{outcome.summary}; {told}")
            case Job():
                records.write(record)
                outcome = pipeline.run(spark, settings, JobRun(execute, say))
                record = msgspec.structs.replace(record, state="ended" if outcome.ok else "failed")
            case _:
                raise AssertionError(f"{pipeline!r} is no pipeline")
    finally:
        with suppress(Exception):  # Spark may be gone: a signal to a whole service ends its Java as well
            spark.stop()
    return outcome, record


@contextmanager
def spark_told() -> Iterator[None]:
    """Turn Spark's errors, a page of text in two languages, into one sentence."""
    try:
        yield
    except Exception as error:  # of Spark, classic or Connect: they have no class in common
        if not type(error).__module__.startswith(SPARK_MODULES):
            raise
        raise SparkFailed(f"Spark failed: {_first_line(error)}") from error


def _is_idle(pipeline: Any, settings: Any) -> bool:
    """Whether there is no work to start Spark for, as far as that can be known without it."""
    is_idle = pipeline.is_idle if isinstance(pipeline, Streaming) else None
    return is_idle is not None and runs_here(settings.spark) and is_idle(settings)


@contextmanager
def _reporting(settings: PipelineSettings, records: Records, say: Callable[[str], None]) -> Iterator[None]:
    """While this is entered, every record is reported to the mesh, if the pipeline talks to one."""
    if not (settings.report and settings.uses_mesh()):
        yield
        return
    reporter = Reporter(lambda: Connection.from_options(settings.mesh.options()).new_client(), say)
    records.told = reporter.tell
    try:
        yield
    finally:
        reporter.close()


def _session(name: str, wanted: SparkSection, *, is_job: bool) -> SparkSession:
    """Make a session. Spark's own log is quiet: if a run fails, we say why in one sentence. For jobs, Spark may adapt
    its plans."""
    defaults = {ADAPTIVE: "true"} if is_job else {}
    return session(f"weft {name}", master=wanted.master, conf=defaults | wanted.conf, log_level="fatal")


def started(
    pipeline: Streaming[Any], spark: SparkSession, settings: Any, say: Callable[[str], None]
) -> Sequence[StreamingQuery]:
    """Start the pipeline's queries and return them. A Spark Connect server gives the Python of ``foreachBatch`` ten
    seconds to begin. A busy machine may need longer, so the start is tried again."""
    for _ in range(SLOW_STARTS_MAX):
        try:
            return pipeline.start(spark, settings)
        except Exception as error:  # of Spark, classic or Connect: they have no class in common
            if SLOW_START not in str(error):
                raise
            say("Spark's Python did not begin in time; trying again")
    return pipeline.start(spark, settings)


def _beside(
    pipeline: Streaming[Any],
    spark: SparkSession,
    settings: Any,
    queries: Sequence[StreamingQuery],
    say: Callable[[str], None],
) -> AbstractContextManager[object]:
    return nullcontext() if pipeline.beside is None else pipeline.beside(spark, settings, queries, say)


def _check_wish(pipeline: Any, wish: Wish) -> None:
    """Refuse flags that mean nothing for this pipeline: the person who gave them expects something else to happen."""
    if wish.available_now and not isinstance(pipeline, Streaming):
        raise UsageError(f"{pipeline.name} ends by itself: --available-now is for pipelines that go on")
    if wish.execute and not (isinstance(pipeline, Job) and pipeline.plans_first):
        raise UsageError(f"{pipeline.name} needs no --execute, which is for jobs that only plan by default")


class SparkFailed(WeftError):
    """Spark did not start, or could not do what the run needs."""


class QueryFailed(WeftError):
    """A streaming query ended with an error. The checkpoint is kept: a new run continues where this one stopped."""


def watch(
    queries: Sequence[StreamingQuery],
    record: RunRecord,
    records: Records,
    traces: BatchTraces | None,
    say: Callable[[str], None],
) -> tuple[Outcome, RunRecord]:
    """Watch the queries until all have ended, one has failed, or somebody wants them to stop."""
    known = {query.id: QueryRecord(query.name or query.id) for query in queries}
    with _stop_signals() as stopping:
        while not (stopping.wait(LOOK_INTERVAL_S) or records.is_asked_to_stop(record.name)):
            try:
                is_over = not any(query.isActive for query in queries)  # before looking: the last batch is not missed
                for query in queries:
                    _look(query, known, traces, say)
                failed = next((query for query in queries if query.exception() is not None), None)
            except Exception:  # from Spark, which the signal may have ended first
                if stopping.is_set():
                    break
                raise
            record = msgspec.structs.replace(record, queries=tuple(known.values()), updated_us=_now_us())
            records.write(record)
            if failed is not None:
                _stop(queries)
                raise QueryFailed(f"query {failed.name or failed.id} failed: {_first_line(failed.exception())}")
            if is_over:
                return Outcome(_total("done", known)), msgspec.structs.replace(record, state="ended")
        say("stopping")
        _stop(queries)
        return Outcome(_total("stopped", known)), msgspec.structs.replace(record, state="stopped")


def _look(
    query: StreamingQuery, known: dict[str, QueryRecord], traces: BatchTraces | None, say: Callable[[str], None]
) -> None:
    """Record the batches that were finished since the last look."""
    for progress in query.recentProgress:
        last = known[query.id]
        if int(progress["batchId"]) > last.batch:
            known[query.id] = found = read_progress(last, progress)
            if found.rows:
                say(line_of(found))
                if traces is not None:
                    traces.finished(found.query, progress)


def _stop(queries: Sequence[StreamingQuery]) -> None:
    """Stop the queries. A query that cannot be stopped ends with its session, or has ended already."""
    for query in queries:
        with suppress(Exception):  # of Spark, classic or Connect
            query.stop()


def _total(word: str, known: dict[str, QueryRecord]) -> str:
    return f"{word}: " + ", ".join(f"{record.query} {record.rows_total:,} rows" for record in known.values())


def _first_line(error: object) -> str:
    """What went wrong, without the traces of two languages; the cause that a Python worker named, if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("weft.")]
    causes = CAUSE.findall(str(error))
    return (named or causes or lines or ["no reason was given"])[-1 if named else 0]


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that is set by SIGTERM and by Ctrl-C, while this is entered."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, lambda *_: stopping.set())
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _now_us() -> int:
    return time.time_ns() // 1000
