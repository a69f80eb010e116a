"""What may go wrong with events, and with versions of schemas; ``BadSchema`` is for a text that is no schema.

Nodes and clients raise the same. Clients that only hear of it load nothing else of this room.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.model import Pattern, Topic

WHAT: Final = "the event breaks the schema of its topic"
ALSO: Final = "also_"
ALSO_MAX: Final = 20  # further events named in one refusal: clients take 32 facts
SHOWN: Final = ("topic", "schema", "version", "event")


class Fault(NamedTuple):
    """Why an event breaks the schema: the first field at fault, and the reason. No field: the event as a whole."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class SchemaBroken(UsageError):
    """An event breaks the schema of its topic, and the topic refuses such events. Nothing of its batch was kept.

    Facts: ``topic``, ``schema`` (the pattern it was set for), ``version``, ``event`` (its place in the batch, from 0),
    ``field`` (empty: the event as a whole) and ``reason``; of further events of the batch, ``also_<place>``.
    """

    @classmethod
    def of(cls, topic: Topic, pattern: Pattern, version: int, event: int, fault: Fault) -> SchemaBroken:
        return cls(
            WHAT, topic=topic, schema=pattern, version=version, event=event, field=fault.field, reason=fault.reason
        )

    def with_others(self, others: Mapping[int, SchemaBroken]) -> SchemaBroken:
        """The error of a batch in which others are at fault, too, by their places."""
        also = {f"{ALSO}{at}": str(each.fault) for at, each in islice(others.items(), ALSO_MAX)}
        return SchemaBroken(self.what, **self.facts, **also)

    @property
    def fault(self) -> Fault:
        return Fault(str(self.facts.get("field", "")), str(self.facts.get("reason", "")))

    def by_event(self) -> dict[int, SchemaBroken]:
        """One error for each event that it names, by the place in the batch."""
        own = {name: value for name, value in self.facts.items() if not name.startswith(ALSO) and name != "event"}
        place = str(self.facts.get("event", ""))
        found = {int(place): SchemaBroken(self.what, **own)} if place.isdecimal() else {}
        for name, text in self.facts.items():
            if name.startswith(ALSO) and name[len(ALSO) :].isdecimal():
                at, told = int(name[len(ALSO) :]), {**own, "field": "", "reason": text}
                found[at] = SchemaBroken(self.what, **told)
        return found

    def __str__(self) -> str:
        rest = {name: value for name, value in self.facts.items() if name in SHOWN}
        more = sum(name.startswith(ALSO) for name in self.facts)
        facts = [f"{name} {value}" for name, value in rest.items()] + ([f"and {more} more events"] if more else [])
        return f"{self.what}: {self.fault} ({', '.join(facts)})" if facts else f"{self.what}: {self.fault}"


class IncompatibleSchema(UsageError):
    """The new version may not follow the old one; the text names each field and the rule."""


class NoSchema(UsageError):
    """No schema was set for that, or the caller may not see it."""
