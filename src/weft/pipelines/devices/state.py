"""``health`` inside Spark: Spark's state keeps what is known of each node; decisions are made when their time comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from weft.pipelines.derived_tables import frame_of, rejected_rows
from weft.pipelines.devices.node_health import (
    Known,
    Rules,
    advance,
    arrive,
    decode_known,
    encode_known,
    in_order,
    next_us,
)
from weft.pipelines.devices.signals import NO_NODE, decode_signal, parse_key
from weft.pipelines.devices.tables import OUTPUT, rows_of

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

NO_TIMER = 0


class HealthProcessor(StatefulProcessor):
    """Makes signals and deadlines wait for the watermark. Each node has one timer, for whichever comes first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("known", "data binary, timer_ms bigint")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        data = [bytes(each) for frame in rows for each in frame["data"] if each is not None]
        if key[0] == NO_NODE:
            yield frame_of(rejected_rows(data), OUTPUT)
        elif data:
            known, timer_ms = self._load()
            self._keep(key[0], arrive(known, map(decode_signal, data)), timer_ms)

    def handleExpiredTimer(  # noqa: N802  Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  Spark's name
    ) -> Iterator[pd.DataFrame]:
        known, timer_ms = self._load()
        if timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return
        protocol, name = parse_key(key[0])
        until_us = timerValues.getCurrentWatermarkInMs() * 1000
        known, alerts = advance(known, until_us, self._rules.of(protocol))
        self._keep(key[0], known, NO_TIMER)
        if rows := rows_of(protocol, name, known.node, alerts, until_us):
            yield frame_of(rows, OUTPUT)

    def close(self) -> None:
        """There is nothing to close."""

    def _load(self) -> tuple[Known, int]:
        stored = self._state.get()
        return (Known(), NO_TIMER) if stored is None else (decode_known(stored[0]), stored[1])

    def _keep(self, key: str, known: Known, timer_ms: int) -> None:
        """Store what is known, and set the timer. ``timer_ms`` is the timer that is set now."""
        if known.is_empty:
            self._state.clear()
            return
        due_us = next_us(known, self._rules.of(parse_key(key)[0]))
        due_ms = NO_TIMER if due_us is None else -(-due_us // 1000)
        if due_ms != NO_TIMER and (timer_ms == NO_TIMER or due_ms < timer_ms):
            if timer_ms != NO_TIMER:
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(due_ms)
            timer_ms = due_ms
        self._state.update((encode_known(known), timer_ms))


def decide_history(rules: Rules, until_us: int, key: str, data: Sequence[bytes]) -> pd.DataFrame:
    """For tables: handle all signals of a key at once; the result is the node's history up to ``until_us``."""
    if key == NO_NODE:
        return frame_of(rejected_rows(data), OUTPUT)
    protocol, name = parse_key(key)
    known, alerts = advance(Known(waiting=in_order(map(decode_signal, data))), until_us, rules.of(protocol))
    return frame_of(rows_of(protocol, name, known.node, alerts, until_us), OUTPUT)
