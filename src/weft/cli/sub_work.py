"""What ``weft sub`` does."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from weft.cli.connection import with_client
from weft.cli.console import err, fail
from weft.cli.events import event_document, event_line
from weft.cli.options import Where, misused
from weft.cli.tables import counted, print_json
from weft.client import Client, Received, Subscription
from weft.limits import OFFSET_MAX

OFFSET: Final = re.compile(r"[0-9]{1,19}")

Begin = Literal["earliest", "latest"] | int | datetime | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events, and how many. ``begin`` None: where the group stands, else the latest."""

    pattern: str
    begin: Begin
    group: str
    count: int | None
    timeout_s: float | None
    json: bool


def parse_begin(text: str | None) -> Begin:
    """``earliest|latest|OFFSET|RFC3339``."""
    match text:
        case None | "earliest" | "latest":
            return text
        case _:
            return _parse_offset_or_time(text)


def _parse_offset_or_time(text: str) -> int | datetime:
    if OFFSET.fullmatch(text):
        if int(text) > OFFSET_MAX:
            misused(f"--from {text} is beyond the largest possible offset ({OFFSET_MAX})")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        misused(f"--from {text} is not earliest, latest, an offset or a time like 2026-01-31T12:00:00Z")
    if moment.tzinfo is None:
        misused(f"--from {text} needs a time zone: add Z for UTC, or +02:00")
    return moment


def print_events(where: Where, wanted: Wanted) -> None:
    """Exit status 1 if fewer events came in time than were asked for."""
    came = with_client(where, lambda client: _print(client, wanted))
    if wanted.count is not None and came < wanted.count:
        fail(f"{came} of {wanted.count} events came within {wanted.timeout_s:g} s")


async def _print(client: Client, wanted: Wanted) -> int:
    subscription = client.subscribe(
        wanted.pattern, group=wanted.group, start=wanted.begin, commit="manual" if wanted.group else "auto"
    )
    async with subscription:
        await subscription.opened()
        printer = _Printer(subscription, wanted)
        try:
            async with asyncio.timeout(wanted.timeout_s):
                await printer.run()
        except TimeoutError:
            err.print(f"{counted(printer.came, 'event')} in {wanted.timeout_s:g} s", style="dim")
    return printer.came


class _Printer:
    """Prints until there are enough events; ``came`` counts them, also after an interrupt."""

    def __init__(self, subscription: Subscription, wanted: Wanted) -> None:
        self._subscription = subscription
        self._wanted = wanted
        self.came = 0

    async def run(self) -> None:
        async for event in self._subscription:
            self._print(event)
            self.came += 1
            if self._wanted.group:
                # Printed is handled, the last one too: the iterator is not asked for the one behind it.
                await self._subscription.handled(event)
            if self.came == self._wanted.count:
                return

    def _print(self, event: Received) -> None:
        if self._wanted.json:
            print_json(event_document(event.stream, event.epoch, event.offset, event))
        else:
            sys.stdout.write(event_line(event.stream, event.epoch, event.offset, event) + "\n")
        sys.stdout.flush()  # the reader at the other end of a pipe waits for it
