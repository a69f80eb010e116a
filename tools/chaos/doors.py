"""The load: one process for each door. ``python -m tools.chaos.doors SETTINGS DOOR INDEX``.

Every event carries an id of its own, ``#door/number#``, whatever the door makes of the rest. What is tried is noted
before it is tried. SIGTERM ends a door: those that publish wait for the receipts that are still to come.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tools.chaos import door_others, door_sdk, door_spark
from tools.chaos.journal import Journal
from tools.chaos.load import Load, Settings

DOORS: Final[dict[str, Callable[[Load], Awaitable[None]]]] = {
    "sdk": door_sdk.publish,
    "safe": door_sdk.publish_safely,
    "reader": door_sdk.read,
    "group": door_sdk.work,
    "kv": door_sdk.put,
    "revoked": door_sdk.publish_until_refused,
    "guest": door_sdk.publish_as_guest,
    "exmp": door_others.publish_exmp,
    "listener": door_others.listen_exmp,
    "emm": door_others.send_datagrams,
    "quic": door_others.send_over_quic,
    "compact": door_others.speak_emm_compact,
    "coaty": door_others.speak_coaty,
    "npm": door_others.speak_npm_coaty,
    "archive": door_spark.drive,
    "sink": door_spark.drive,
}


@dataclass(frozen=True)
class Door:
    """One process of the load, and whether it makes events."""

    name: str
    index: int = 0

    @property
    def journal(self) -> str:
        return f"{self.name}{self.index}.jsonl"


WRITERS: Final = (
    Door("sdk", 0),
    Door("sdk", 1),
    Door("safe"),
    Door("kv"),
    Door("exmp"),
    Door("emm"),
    Door("quic"),
    Door("compact"),
    Door("coaty"),
)
READERS: Final = (Door("reader", 0), Door("reader", 1), Door("listener"), Door("group", 0), Door("group", 1))
NPM: Final = Door("npm")  # where node and the packages are
SPARK: Final = (Door("archive"), Door("sink"))


async def main(settings_file: str, name: str, index: str) -> None:
    settings = msgspec.json.decode(Path(settings_file).read_bytes(), type=Settings)
    door = Door(name, int(index))
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    chance = Random(f"{settings.seed} {name} {index}")  # noqa: S311 - no secret
    journal = Journal(Path(settings.journals) / door.journal)
    journal.note("began", door=name, index=int(index))
    await DOORS[name](Load(settings, f"{name}{index}", int(index), journal, chance, over))
    journal.note("ended", door=name, index=int(index))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
