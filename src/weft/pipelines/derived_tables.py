"""What the pipelines of derived tables (``health``, ``rollup``, ``objects``) have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Struct
from pydantic import AfterValidator

from weft.limits import CLOCK_SKEW_S_MAX
from weft.pipelines import lake
from weft.pipelines.lake.upsert import check_layout
from weft.pipelines.settings import INTERVAL

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

MISDATED: Final = "the event's timestamp is in the future or before 1970"
# One row for each event that was not understood: its identity, and why.
REJECTED: Final = {
    "topic": "string",
    "origin": "string",
    "epoch": "bigint",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "rejected": "string",
}


class Rejected(Struct, frozen=True):
    """A row of ``REJECTED`` on its way through Spark's state operators, as bytes."""

    topic: str
    origin: str
    epoch: int
    partition: int
    offset: int
    timestamp_us: int | None  # None: the time cannot be represented
    rejected: str


_REJECTED: Final = msgspec.msgpack.Decoder(Rejected)


def rejected_rows(data: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Rows of ``in_micros(REJECTED)`` from their encoded bytes."""
    return (msgspec.structs.asdict(_REJECTED.decode(each)) for each in data)


def _interval(text: str) -> str:
    if not INTERVAL.fullmatch(text):
        raise ValueError('has to be a time like "5 minutes"')
    return text


Interval = Annotated[str, AfterValidator(_interval)]


# --- time ------------------------------------------------------------------------------------------------------------


def read_at() -> Column:
    """When the micro-batch was planned, by the driver's clock. A repeated batch has the same time."""
    from pyspark.sql import functions as f

    return f.current_timestamp()


def is_misdated(timestamp: Column) -> Column:
    """Whether an event's timestamp is impossible: in the future, or before there were any events.

    Publishers choose their timestamps. A timestamp of next year would move the watermark there, and all later events
    would count as late. Most readers of tables cannot even represent the year 200,000.
    """
    from pyspark.sql import functions as f

    begin = f.timestamp_seconds(f.lit(0))
    return (timestamp < begin) | (timestamp > read_at() + f.make_dt_interval(secs=f.lit(CLOCK_SKEW_S_MAX)))


def to_decode(events: DataFrame) -> DataFrame:
    """Events of the mesh in the form that decoding functions take: with a time that Python can always represent."""
    from pyspark.sql import functions as f

    return events.select(
        *("topic", "origin", "epoch", "partition", "offset", "value"),
        f.unix_micros("timestamp").alias("timestamp_us"),
        is_misdated(f.col("timestamp")).alias("misdated"),
        read_at().alias("read_at"),
    )


# --- rows ------------------------------------------------------------------------------------------------------------


def in_micros(columns: Mapping[str, str]) -> dict[str, str]:
    """The same columns with times as microseconds: pandas cannot represent times beyond the year 2262."""
    return {
        f"{name}_us" if kind == "timestamp" else name: "bigint" if kind == "timestamp" else kind
        for name, kind in columns.items()
    }


def with_times(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Rows of ``in_micros(columns)`` as rows of ``columns``."""
    from pyspark.sql import functions as f

    return rows.select(
        *(
            f.timestamp_micros(f"{name}_us").alias(name) if kind == "timestamp" else f.col(name)
            for name, kind in columns.items()
        )
    )


def ddl(columns: Mapping[str, str]) -> str:
    """Columns and their types in the syntax that Spark parses."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Rows as a pandas frame for Spark. Missing values are None, because Arrow takes NaN for a float, even in a text
    column."""
    import pandas as pd

    names = list(columns)
    return pd.DataFrame([[row.get(name) for name in names] for row in rows], columns=names, dtype=object)


def prepare_state(
    table: lake.TableSettings, columns: Mapping[str, str], keys: Sequence[str], order_by: Sequence[str]
) -> None:
    """Call this before a query starts: makes sure that a table of current state exists. TableError if that is
    impossible."""
    check_layout(table, list(columns), keys, order_by)
    lake.prepare(table, _struct(columns))


def prepare_rejected(table: lake.TableSettings) -> None:
    lake.prepare(table, _struct(REJECTED))


def _struct(columns: Mapping[str, str]) -> StructType:
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl(columns))
    assert isinstance(found, StructType), "columns make a struct"
    return found


@contextmanager
def kept(rows: DataFrame) -> Iterator[None]:
    """Cache the frame, so that it is computed once although several tables are written from it."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def put_rejected(rows: DataFrame, table: lake.TableSettings, *, query: str, batch: int) -> None:
    """Add the rejected rows of a batch to their table."""
    lake.append_batch(rows.where("rejected IS NOT NULL").select(*REJECTED), table, query=query, batch=batch)


def next_batch(table: lake.TableSettings, query: str) -> int:
    """The first batch number that the table has not seen yet, for work that is repeated without a checkpoint."""
    last = lake.open_table(table).committed(query)
    return 0 if last is None else last + 1
