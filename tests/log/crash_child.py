"""The victim of test_crash.py: appends to a log until it is killed, and says what it has been promised.

    python crash_child.py
    stdin    one line per life: directory, number of the life, seed
    stdout   "born PID", then a line for each receipt, "synced STREAM FIRST_OFFSET COUNT LIFE NUMBER", then "dead"

Importing takes a second, dying does not: each life is a fork of a process that has opened nothing yet.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from random import Random as Chance

from weft.errors import StorageError
from weft.log import Appended, Log, books, chunks, open_log
from weft.log.retention import RetentionRule, retain
from weft.log.syncer import Syncer
from weft.model import Batch, Epoch, NodeId, Pattern, Position, Stream, parse_topic

SEGMENT_BYTES = 256 << 10
RETAINED_BYTES = 1 << 20  # of each stream
STREAMS = [Stream(parse_topic(f"crash.{name}"), NodeId("victim"), 0) for name in ("a", "b", "c", "d")]
BATCHES_IN_FLIGHT_MAX = 64
# So that we die between the pieces of the books, and of batches, too.
books.AT_ONCE = 2  # type: ignore[misc]
chunks.CHUNK_BYTES = 2000  # type: ignore[misc]


def say(text: str) -> None:
    """One write: the parent sees whole lines only, whenever we die."""
    os.write(1, f"{text}\n".encode())


class Life:
    """One run of the victim. A payload names its stream, its life, and its number in that life."""

    def __init__(self, log: Log, life: int, chance: Chance) -> None:
        self._log = log
        self._life = life
        self._chance = chance
        self._number = 0
        self._waiting: deque[tuple[Appended, int]] = deque()  # appended, with the number of its first event
        self._syncer = Syncer(log, self._durable, self._failed)

    def live(self) -> None:
        self._syncer.start()
        while True:
            self._append(self._chance.choice(STREAMS))
            whim = self._chance.randrange(60)
            if whim == 0:
                self._log.begin_segment()
            elif whim == 1:
                retain(self._log, [RetentionRule(Pattern(">"), stream_bytes_max=RETAINED_BYTES)], now_us=0)
            elif whim == 2:
                self._log.commit("group", [Position(STREAMS[0], self._log.epoch, self._number)])
            self._syncer.wake()
            while len(self._waiting) > BATCHES_IN_FLIGHT_MAX:
                os.sched_yield()

    def _append(self, at: Stream) -> None:
        events = self._chance.choice((1, 1, 3, 20))
        size = self._chance.choice((0, 100, 3000))
        first = self._number
        self._number += events
        names = [f"{at.topic}|{self._life}|{number}|".encode() for number in range(first, self._number)]
        made = Batch.from_columns([name + b"." * size for name in names], first)
        self._waiting.append((self._log.append(at, made), first))

    def _durable(self, ticket: int) -> None:
        while self._waiting and self._waiting[0][0].ticket <= ticket:
            appended, first = self._waiting.popleft()
            say(f"synced {appended.stream} {appended.first_offset} {appended.count} {self._life} {first}")

    def _failed(self, error: StorageError) -> None:
        say(f"failed {error}")
        os._exit(1)


def main() -> None:
    for line in sys.stdin:
        directory, life, seed = line.split()
        child = os.fork()
        if not child:
            say(f"born {os.getpid()}")
            try:
                log = open_log(
                    Path(directory),
                    lambda: Epoch(1),
                    segment_bytes=SEGMENT_BYTES,
                    disk_reserve_bytes=0,
                    prepared_bytes=SEGMENT_BYTES,
                )
                Life(log, int(life), Chance(seed)).live()  # noqa: S311
            except BaseException as error:  # everything: a victim must not live on as the parent of others
                say(f"failed {type(error).__name__} {str(error).splitlines()[0]}")
            os._exit(1)
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main()
