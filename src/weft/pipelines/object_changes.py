"""``objects`` inside Spark: turns events into changes, and changes into rows of the table, object by object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from weft.pipelines.coaty_objects import Change, Known, decode_known, encode_known, read_changes_untrusted, step
from weft.pipelines.derived_tables import MISDATED, REJECTED, Rejected, ddl, frame_of, in_micros, rejected_rows
from weft.pipelines.object_tables import OBJECTS
from weft.wire.coaty import BadCoatyMessage

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

# ``data`` is a Change of that object or, under the empty key, a Rejected.
CHANGES: Final = pa.schema(
    {"object_key": pa.string(), "read_at": pa.timestamp("us", "UTC"), "data": pa.binary()},
)
CHANGES_DDL: Final = ddl({"object_key": "string", "read_at": "timestamp", "data": "binary"})
OUTPUT: Final = in_micros(OBJECTS | REJECTED)  # rows of both tables, told apart by ``rejected``
NO_OBJECT: Final = ""
IDENTITY: Final = ("origin", "epoch", "partition", "offset")

_CHANGE: Final = msgspec.msgpack.Decoder(Change)


def read_changes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: events as ``to_decode`` gives them, to ``CHANGES``."""
    for batch in batches:
        rows = [row for event in batch.to_pylist() for row in _rows_of(event)]
        yield pa.RecordBatch.from_pylist(rows, CHANGES)


def _rows_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    topic, at_us, read_at = event["topic"], event["timestamp_us"], event["read_at"]
    where = {name: event[name] for name in IDENTITY}
    try:
        if event["misdated"]:  # an event dated next year would win until then
            raise BadCoatyMessage(MISDATED)
        changes = read_changes_untrusted(topic, event["value"], at_us=at_us, **where)
    except BadCoatyMessage as error:
        time_us = None if event["misdated"] else at_us
        rejected = Rejected(topic, **where, timestamp_us=time_us, rejected=str(error))
        return [{"object_key": NO_OBJECT, "read_at": read_at, "data": msgspec.msgpack.encode(rejected)}]
    return [
        {
            "object_key": f"{change.namespace}/{change.object_id}",  # no namespace has a slash
            "read_at": read_at,
            "data": msgspec.msgpack.encode(change),
        }
        for change in changes
    ]


class ObjectProcessor(StatefulProcessor):
    """Keeps what is known of each object; see ``coaty_objects``. Its clock is the time when batches were planned, not
    the events' own time: an event about an object is never too late, only older than what is known."""

    def __init__(self, *, marks: bool, remember_s: float) -> None:
        self._marks = marks
        self._remember_ms = round(remember_s * 1000)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._known = handle.getValueState("known", "data binary, forget_at_ms bigint")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        frames = [frame for frame in rows if len(frame)]
        data = [bytes(each) for frame in frames for each in frame["data"]]
        if key[0] == NO_OBJECT:
            yield frame_of(rejected_rows(data), OUTPUT)
            return
        if not data:
            return
        stored = self._known.get()
        changes = [_CHANGE.decode(each) for each in data]
        known, shown = step(Known() if stored is None else decode_known(stored[0]), changes, marks=self._marks)
        forget_at_ms = 0
        if not self._marks and not known.is_there:
            read_at_ms = max(int(frame["read_at"].max().timestamp() * 1000) for frame in frames)
            forget_at_ms = max(read_at_ms, timerValues.getCurrentWatermarkInMs()) + self._remember_ms
            self._handle.registerTimer(forget_at_ms)
        self._known.update((encode_known(known), forget_at_ms))
        if shown is not None:
            yield frame_of([_row(changes[0], shown)], OUTPUT)

    def handleExpiredTimer(  # noqa: N802  Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        stored = self._known.get()
        if stored is not None and stored[1] == expiredTimerInfo.getExpiryTimeInMs():  # else there was a newer event
            self._known.clear()
        return iter(())

    def close(self) -> None:
        """There is nothing to close."""


def _row(change: Change, shown: Known) -> dict[str, Any]:
    assert shown.advertised is not None, "what was never advertised is not shown"
    gone = None if shown.is_there else shown.deadvertised
    return {
        "namespace": change.namespace,
        "object_id": change.object_id,
        **({} if shown.facts is None else msgspec.structs.asdict(shown.facts)),
        "advertised_at_us": shown.advertised.at_us,
        "deadvertised_at_us": None if gone is None else gone.at_us,
        "changed_at_us": shown.advertised.at_us if gone is None else gone.at_us,
        "revision": shown.revision,
    }
