"""The current Coaty objects: a table with one row per object that was advertised and not deadvertised since.

It reads the topics to which a bridge publishes a namespace (``coaty.<namespace>.ADV.<type>`` and ``.DAD``).
``coaty_objects`` says how an object's state is decided, and why order and repetition do not matter. Events that are not
valid Coaty events go to a table of their own, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from weft.configuration import Section
from weft.pipelines import lake
from weft.pipelines.base import Streaming, read_topics
from weft.pipelines.coaty_topics import ADVERTISING
from weft.pipelines.derived_tables import (
    REJECTED,
    ddl,
    kept,
    prepare_rejected,
    prepare_state,
    put_rejected,
    to_decode,
    with_times,
)
from weft.pipelines.object_tables import KEYS, OBJECTS, ORDER, put_objects
from weft.pipelines.settings import SourceSection, StreamingSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OBJECTS_REMEMBER_S: Final = 86_400  # remember removals this long: old events may come after an outage
NAME: Final = "objects"


class ObjectsSection(Section):
    """What happens to objects that are gone."""

    deadvertised: Literal["remove", "mark"] = Field(
        default="remove", description="Whether they leave the table, or stay as they were, with `deadvertised_at`."
    )
    remember_s: float = Field(
        default=OBJECTS_REMEMBER_S,
        gt=0,
        description="How long a removed object is remembered, so that older news do not bring it back.",
    )


class ObjectsSettings(StreamingSettings):
    """Coaty's topics in the mesh, the table of objects, and a table of rejected events."""

    source: SourceSection
    objects: ObjectsSection = ObjectsSection()
    table: lake.TableSection
    rejected: lake.TableSection


def start(spark: SparkSession, settings: ObjectsSettings) -> Sequence[StreamingQuery]:
    name = settings.name or NAME
    prepare_state(settings.table.settings(), OBJECTS, KEYS, ORDER)
    prepare_rejected(settings.rejected.settings())
    rows = changed_objects(read_topics(spark, settings.mesh, settings.source, name), settings.objects)
    checkpoint = str(settings.run.checkpoint / NAME)
    writer = rows.writeStream.foreachBatch(_put(settings, checkpoint)).queryName(name).outputMode("append")
    trigger = settings.run.trigger_arguments()
    return [writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()]


def changed_objects(events: DataFrame, section: ObjectsSection) -> DataFrame:
    """Rows of ``OBJECTS`` for objects that changed, and rows of ``REJECTED`` for events that were not understood."""
    from pyspark.sql import functions as f

    from weft.pipelines.object_changes import CHANGES_DDL, OUTPUT, ObjectProcessor, read_changes

    advertising = to_decode(events.where(f.col("topic").rlike(ADVERTISING)))
    changes = advertising.mapInArrow(read_changes, CHANGES_DDL).withWatermark("read_at", "0 seconds")
    processor = ObjectProcessor(marks=section.deadvertised == "mark", remember_s=section.remember_s)
    rows = changes.groupBy("object_key").transformWithStateInPandas(
        processor, outputStructType=ddl(OUTPUT), outputMode="append", timeMode="eventTime"
    )
    return with_times(rows, OBJECTS | REJECTED)


def _put(settings: ObjectsSettings, checkpoint: str) -> Callable[[DataFrame, int], None]:
    table, rejected = settings.table.settings(), settings.rejected.settings()
    marks = settings.objects.deadvertised == "mark"

    def put(rows: DataFrame, batch: int) -> None:
        query = lake.query_id(checkpoint)
        with kept(rows):
            changed = rows.where("rejected IS NULL").select(*OBJECTS)
            put_objects(changed, table, marks=marks, query=query, batch=batch)
            put_rejected(rows, rejected, query=query, batch=batch)

    return put


PIPELINE: Final = Streaming(NAME, ObjectsSettings, start)

if __name__ == "__main__":
    from weft.pipelines.submitting import main

    main(PIPELINE)
