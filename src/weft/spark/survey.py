"""What the nodes of a job have: asked of each of them, and put together.

Nodes copy a stream only while somebody there wants it. So a streaming job holds a subscription as long as it lives and
reads nothing from it: it makes the events of the whole mesh come to one of the job's nodes, from which executors then
fetch them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from weft.client import Options, StreamPositions, Unavailable
from weft.client.blocking import Client
from weft.client.errors import is_retryable
from weft.errors import WeftError
from weft.limits import SPARK_ASK_S, SPARK_SILENT_S, SPARK_UNAVAILABLE_S
from weft.model import Pattern
from weft.spark.connection import Connection
from weft.spark.holdings import Holdings, union
from weft.spark.offsets import Offsets, positions

LOG: Final = logging.getLogger("weft.spark")
ASKING: Final = Options(connect_timeout_s=SPARK_ASK_S / 2, call_timeout_s=SPARK_ASK_S, open_timeout_s=SPARK_ASK_S)
# The smallest credit there is, and nothing to wait for at the end: what came is not looked at.
HOLDING: Final = Options(credit_bytes=1, connect_timeout_s=SPARK_ASK_S, close_timeout_s=0.1)
RETRY_S: Final = 1.0  # between two rounds of asking while nobody answers


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, and which nodes did not answer and why."""

    held: Holdings
    silent: Mapping[str, WeftError] = field(default_factory=dict)


class Surveyor:
    """Asks the nodes of a connection. For one process and one thread; close it."""

    def __init__(self, connection: Connection, pattern: Pattern) -> None:
        self._connection = connection
        self._pattern = pattern
        self._addresses = connection.addresses()
        self._clients: dict[str, Client] = {}
        self._silent_until_s: dict[str, tuple[float, WeftError]] = {}
        self._holder: Client | None = None

    def hold(self) -> None:
        """From now on, events from everywhere come to one of our nodes; to be tried again if nobody answers."""
        if self._holder is None:
            try:
                self._holder = self._connection.new_client(*self._addresses, options=HOLDING)
            except Unavailable as error:
                LOG.warning("cannot subscribe, so events of other nodes do not come: %s", error)
            else:
                self._holder.subscribe(self._pattern, start="latest")

    def look(self, timestamp: datetime | None = None, *, complete: bool) -> Survey:
        """What is there. Waits a while for a node to answer, with ``complete`` for all of them; Unavailable."""
        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
        while True:
            survey = self._look_once(timestamp, patient=complete)
            answered = len(self._addresses) - len(survey.silent)
            if not survey.silent or (answered and not complete):
                return survey
            if time.monotonic() > give_up_s:
                raise self._given_up(survey, complete)
            time.sleep(RETRY_S)

    def commit(self, group: str, offsets: Offsets, held: Holdings) -> None:
        """Report how far a job is, each stream where it is known; WeftError."""
        for address in self._addresses:
            known = {
                place: offset
                for place, offset in offsets.items()
                if place in held and held[place].home_of(offset) == address
            }
            if known:
                self._client(address).commit(group, positions(known))

    def close(self) -> None:
        clients = [*self._clients.values(), *([self._holder] if self._holder else [])]
        self._clients, self._holder = {}, None
        for client in clients:
            with suppress(WeftError):
                client.close()

    def _given_up(self, survey: Survey, complete: bool) -> Unavailable:
        reasons = "; ".join(f"{address}: {error}" for address, error in survey.silent.items())
        what = "not all nodes of the job answer" if complete else "none of the job's nodes answers"
        return Unavailable(what, waited_s=SPARK_UNAVAILABLE_S, reasons=reasons)

    def _look_once(self, timestamp: datetime | None, *, patient: bool) -> Survey:
        found: dict[str, list[StreamPositions]] = {}
        silent: dict[str, WeftError] = {}
        for address in self._addresses:
            until_s, last = self._silent_until_s.get(address, (0.0, None))
            if last is not None and time.monotonic() < until_s and not patient:
                silent[address] = last
                continue
            try:
                found[address] = self._client(address).positions(self._pattern, timestamp=timestamp)
                self._silent_until_s.pop(address, None)
            except WeftError as error:
                if not is_retryable(error):
                    raise
                LOG.warning("node %s does not answer: %s", address, error)
                silent[address] = error
                self._silent_until_s[address] = (time.monotonic() + SPARK_SILENT_S, error)
        if len(silent) == len(self._addresses):
            self._silent_until_s.clear()  # with nobody left to hold up, all are asked again
        return Survey(union(found), silent)

    def _client(self, address: str) -> Client:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = self._connection.new_client(address, options=ASKING)
        return client
