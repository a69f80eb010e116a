"""A Spark application: what one door publishes is written to topics of its own, each event once.

``python -m tools.chaos.sink SETTINGS TRIGGER``; ``last`` takes what is there and ends. An event ``#sdk1/7#`` becomes
``#sink0/7#``, so the checker can tell the two apart.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from tools.chaos.drivers import SINK_NODE, SUNK
from tools.chaos.load import Settings
from weft.spark.session import session

SINK: Final = "sink0"


def main(settings_file: str, trigger: str) -> None:
    settings = msgspec.json.decode(Path(settings_file).read_bytes(), type=Settings)
    spark = session("sink", master="local[1]", conf={"spark.sql.shuffle.partitions": "1"})
    first = settings.nodes[SINK_NODE]
    everybody = [first, *(address for address in settings.nodes.values() if address != first)]
    mesh = {"nodes": ",".join(everybody), "token": f"file:{settings.token_file}", "tlsRoot": settings.root}
    is_last = trigger == "last"
    reading = {
        "subscribe": f"chaos.{SUNK}.>",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",  # what a repair gave up: the checker asks for the rest
        "members": "named" if is_last else "reachable",
    }
    events = spark.readStream.format("weft").options(**mesh, **reading).load()
    renamed = events.selectExpr(
        f"replace(topic, 'chaos.{SUNK}.', 'chaos.{SINK}.') topic",
        f"replace(cast(value AS string), '#{SUNK}/', '#{SINK}/') value",
    )
    writer = renamed.writeStream.format("weft").options(**mesh, checkpointLocation=f"{settings.place}/sink-checkpoint")
    timed = writer.trigger(availableNow=True) if is_last else writer.trigger(processingTime=trigger)
    timed.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
