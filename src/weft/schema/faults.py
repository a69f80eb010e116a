"""What is wrong with an event. In a file of its own, so that clients that only hear of it load nothing else of this
room."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """Why an event breaks the schema: the first field at fault, and the reason. No field: the event as a whole."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason
