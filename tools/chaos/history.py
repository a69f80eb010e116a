"""What was written down in a run, as values. Nothing here knows weft: only journals, and what nodes printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tools.chaos.journal import read_journal

MARK: Final = re.compile(r"#[a-z]+[0-9]+/[0-9]+#")
OWN: Final = ("chaos.", "emm.emm", "emm.quic", "emm.notification.", "coaty.chaos.CHN.")  # topics of the load
SUNK, SINK = "sdk1", "sink0"  # a Spark query writes again what the first one publishes, as the second one's


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an event is: the same at every node."""

    topic: str
    origin: str
    partition: int
    epoch: int
    offset: int

    @property
    def stream(self) -> tuple[str, str, int, int]:
        return (self.topic, self.origin, self.partition, self.epoch)


@dataclass(frozen=True, slots=True)
class Acked:
    id: str
    place: Place
    copies: int
    at: float


@dataclass(frozen=True, slots=True)
class Seen:
    """An event that somebody got, or that a node or a table has."""

    place: Place
    id: str
    at: float = 0.0


@dataclass(slots=True)
class History:
    """All of a run. ``logs``: node -> what its log has; ``given_up``: what a repair said is gone from a node's log."""

    tried: set[str] = field(default_factory=set)
    acked: list[Acked] = field(default_factory=list)
    delivered: dict[str, list[Seen]] = field(default_factory=dict)
    handled: list[Seen] = field(default_factory=list)
    nacked: list[Seen] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    logs: dict[str, list[Seen]] = field(default_factory=dict)
    given_up: dict[str, list[tuple[Place, Place]]] = field(default_factory=dict)
    puts: dict[str, set[str]] = field(default_factory=dict)
    puts_acked: list[tuple[str, str, str]] = field(default_factory=list)  # key, value, revision
    buckets: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)  # node -> key -> value, revision
    unasked: dict[str, str] = field(default_factory=dict)  # node -> why it did not tell what its bucket has
    table: list[Seen] | None = None
    faults: dict[str, tuple[float, float]] = field(default_factory=dict)  # which one: began, ended
    revoked: dict[str, float] = field(default_factory=dict)  # door -> when
    group_topics: str = "chaos.sdk0."
    has_sink: bool = False
    drivers_killed: int = 0


def mark_in(text: str) -> str:
    """The id in a payload; the text itself if there is none, which nobody published then."""
    found = MARK.search(text)
    return found.group() if found else text


def read_history(journals: Path) -> History:
    history = History()
    for path in sorted(journals.glob("*.jsonl")):
        name = path.stem
        for line in read_journal(path):
            _take(history, name, line)
    if history.has_sink:
        history.tried |= {sunk(mark) for mark in history.tried if mark.startswith(f"#{SUNK}/")}
    return history


def sunk(mark: str) -> str:
    """The id that an event has once the sink has written it."""
    return mark.replace(f"#{SUNK}/", f"#{SINK}/")


def _take(history: History, name: str, line: dict[str, Any]) -> None:
    match line["kind"]:
        case "tried":
            history.tried.add(line["id"])
        case "acked":
            history.acked.append(Acked(line["id"], Place(*line["place"]), line["copies"], line["at"]))
        case "delivered":
            history.delivered.setdefault(name, []).append(_seen(line))
        case "handled":
            history.handled.append(_seen(line))
        case "nacked":
            history.nacked.append(_seen(line))
        case "dead":
            history.dead.add(mark_in(line["text"]))
        case "put":
            history.puts.setdefault(line["key"], set()).add(line["value"])
        case "put_acked":
            history.puts_acked.append((line["key"], line["value"], line["revision"]))
        case "entry":
            history.buckets.setdefault(line["node"], {})[line["key"]] = (line["value"], line["revision"])
        case "unasked":
            history.unasked[line["node"]] = line["why"]
        case "logged":
            history.logs.setdefault(line["node"], []).append(_seen(line))
        case "row":
            history.table = history.table or []
            history.table.append(_seen(line))
        case "given_up":
            topic, origin, partition, epoch = line["stream"]
            first, last = (Place(topic, origin, partition, epoch, line[end]) for end in ("first", "last"))
            history.given_up.setdefault(line["node"], []).append((first, last))
        case "fault" if line["phase"] == "began":
            history.faults[str(line["what"])] = (line["at"], float("inf"))
        case "fault":
            history.faults[str(line["what"])] = (history.faults[str(line["what"])][0], line["at"])
        case "began":
            history.has_sink |= line["door"] == "sink"
        case "driver_killed":
            history.drivers_killed += 1
        case "revoked":
            history.revoked[line["door"]] = line["at"]
        case _:
            pass  # for people


def _seen(line: dict[str, Any]) -> Seen:
    return Seen(Place(*line["place"]), mark_in(line["text"]), line["at"])


def of_load(seen: list[Seen]) -> Iterator[Seen]:
    return (each for each in seen if each.place.topic.startswith(OWN))
