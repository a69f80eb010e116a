"""``health`` inside Spark, without Spark: state and timers under Spark's own tester, and history in one go."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql.streaming.tws_tester import TwsTester

from weft.pipelines.derived_tables import Rejected
from weft.pipelines.devices.node_health import US, Kind, Protocol, Rules, Signal
from weft.pipelines.devices.signals import NO_NODE, key_of
from weft.pipelines.devices.state import HealthProcessor, decide_history
from weft.pipelines.devices.tables import OUTPUT

RULES = Rules(interval_s=10.0, late_intervals=2.0, gone_intervals=5.0, forget_s=1000.0)
KEY = key_of(Protocol.EMM, "d1")
REJECTED = Rejected("weft.emm.hello", "n0", 1, 0, 1 << 60, None, "because")


def beat(at_s: float) -> Signal:
    return Signal(round(at_s * US), f"m{at_s}", Kind.HEARTBEAT)


def encoded(*values: Signal | Rejected) -> list[bytes]:
    return [msgspec.msgpack.encode(value) for value in values]


def shown(frame: Any) -> list[tuple[Any, ...]]:
    """Alerts as (alert, at), nodes as (status, last seen, signals), times in seconds."""
    if not len(frame):
        return []
    assert list(frame.columns) == list(OUTPUT)
    return [
        (row["alert"], row["at_us"] / US) if row["alert"] else (row["status"], row["last_seen_us"] / US, row["signals"])
        for row in frame.to_dict("records")
    ]


class Stream:
    def __init__(self) -> None:
        self.tester = TwsTester(
            HealthProcessor(RULES), timeMode="eventTime", eventTimeExtractor=lambda row: row["at"].value // 1_000_000
        )

    def come(self, *signals: Signal) -> list[tuple[Any, ...]]:
        times = pd.to_datetime([signal.at_us for signal in signals], unit="us", utc=True)
        return shown(self.tester.testInPandas(KEY, pd.DataFrame({"at": times, "data": encoded(*signals)})))

    def watermark(self, at_s: float) -> list[tuple[Any, ...]]:
        return shown(self.tester.setWatermark(round(at_s * 1000)))

    @property
    def timers(self) -> list[int]:
        self.tester.handle.setGroupingKey(KEY)
        return list(self.tester.handle.listTimers())


def test_signals_wait_for_the_watermark_and_are_taken_in_order() -> None:
    stream = Stream()
    assert stream.come(beat(30), beat(10)) == []
    assert stream.come(beat(20), beat(30)) == []
    assert stream.watermark(15) == [("alive", 10, 1)]
    assert stream.watermark(35) == [("alive", 30, 3)]


def test_a_node_is_missed_in_due_time_and_welcomed_back() -> None:
    stream = Stream()
    stream.come(beat(1))
    assert stream.watermark(5) == [("alive", 1, 1)]
    assert stream.watermark(20.9) == []
    assert stream.watermark(21) == [("late", 1, 1)]
    stream.come(beat(70))
    assert stream.watermark(60) == [("gone", 51), ("gone", 1, 1)]
    assert stream.watermark(71) == [("back", 70), ("alive", 70, 2)]


def test_there_is_one_timer_for_each_node() -> None:
    stream = Stream()
    stream.come(beat(10))
    assert stream.timers == [10_000]
    stream.come(beat(5.0004))
    assert stream.timers == [5_001]
    stream.watermark(6)
    assert stream.timers == [10_000]
    stream.watermark(11)
    assert stream.timers == [30_000]


def test_a_node_that_is_forgotten_leaves_nothing_behind() -> None:
    stream = Stream()
    stream.come(beat(1))
    stream.watermark(100)
    assert stream.tester.peekValueState("known", KEY) is not None
    assert stream.watermark(1051) == []
    assert stream.tester.peekValueState("known", KEY) is None
    assert stream.timers == []


def test_rejected_events_pass_through_and_the_time_alone_says_nothing() -> None:
    tester = TwsTester(HealthProcessor(RULES))
    frame: Any = tester.testInPandas(NO_NODE, pd.DataFrame({"data": [*encoded(REJECTED), None]}))
    (row,) = frame.to_dict("records")
    assert (row["topic"], row["offset"], row["rejected"]) == ("weft.emm.hello", 1 << 60, "because")
    assert (row["timestamp_us"], row["node"], row["alert"]) == (None, None, None)


def test_history_is_decided_as_the_stream_is() -> None:
    history = decide_history(RULES, 71 * US, KEY, encoded(beat(70), beat(1), beat(1)))
    assert shown(history) == [("gone", 51), ("back", 70), ("alive", 70, 2)]
    (row,) = decide_history(RULES, 71 * US, NO_NODE, encoded(REJECTED)).to_dict("records")
    assert row["rejected"] == "because"
