"""Where decisions of ``health`` go: three tables, and a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.pipelines import lake
from weft.pipelines.derived_tables import REJECTED, kept, next_batch, prepare_rejected, prepare_state, put_rejected
from weft.pipelines.devices.tables import ALERT_KEYS, ALERTS, NODE_KEYS, NODE_ORDER, NODES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALERT_ORDER: Final = ("at",)  # an alert never changes
REJECTED_KEYS: Final = ("topic", "origin", "epoch", "partition", "offset")
REJECTED_ORDER: Final = ("offset",)  # nor does an event


@dataclass(frozen=True, slots=True)
class HealthOutput:
    """The places that decisions go to. ``sink``: options of ``format("weft")`` for publishing alerts; None: do not."""

    nodes: lake.TableSettings
    alerts: lake.TableSettings
    rejected: lake.TableSettings
    sink: Mapping[str, str] | None

    def prepare(self) -> None:
        """Make tables that are not there yet, and refuse those that cannot be used."""
        prepare_state(self.nodes, NODES, NODE_KEYS, NODE_ORDER)
        prepare_state(self.alerts, ALERTS, ALERT_KEYS, ALERT_ORDER)
        prepare_rejected(self.rejected)

    def put(self, checkpoint: str, rows: DataFrame, batch: int) -> None:
        """Write a micro-batch of the query with this checkpoint. Each place recognises batches that it already has."""
        query = lake.query_id(checkpoint)
        with kept(rows):
            nodes, alerts = _nodes(rows), _alerts(rows)
            put_rejected(rows, self.rejected, query=query, batch=batch)
            lake.upsert_batch(nodes, self.nodes, keys=NODE_KEYS, order_by=NODE_ORDER, query=query, batch=batch)
            lake.upsert_batch(alerts, self.alerts, keys=ALERT_KEYS, order_by=ALERT_ORDER, query=query, batch=batch)
            if self.sink is not None:
                _publish(alerts, {**self.sink, "txnAppId": query, "txnVersion": str(batch)})

    def put_history(self, rows: DataFrame, query: str) -> None:
        """Write what was computed from a whole table. Rows that are there from an earlier run stay as they are."""
        with kept(rows):
            rejected = rows.where("rejected IS NOT NULL").select(*REJECTED)
            _put_again(rejected, self.rejected, REJECTED_KEYS, REJECTED_ORDER, query)
            _put_again(_nodes(rows), self.nodes, NODE_KEYS, NODE_ORDER, query)
            _put_again(_alerts(rows), self.alerts, ALERT_KEYS, ALERT_ORDER, query)


def _nodes(rows: DataFrame) -> DataFrame:
    return rows.where("status IS NOT NULL").select(*NODES)


def _alerts(rows: DataFrame) -> DataFrame:
    return rows.where("alert IS NOT NULL").select(*ALERTS)


def _put_again(
    rows: DataFrame, table: lake.TableSettings, keys: Sequence[str], order_by: Sequence[str], query: str
) -> None:
    lake.upsert_batch(rows, table, keys=keys, order_by=order_by, query=query, batch=next_batch(table, query))


def _publish(alerts: DataFrame, options: Mapping[str, str]) -> None:
    """Publish alerts in one task, so that those of one batch are in time order."""
    from pyspark.sql import functions as f

    in_order = alerts.coalesce(1).sortWithinPartitions("at", "protocol", "node", "alert")
    events = in_order.select(f.to_json(f.struct(*ALERTS)).alias("value"), f.col("node").alias("key"))
    events.write.format("weft").options(**options).mode("append").save()
