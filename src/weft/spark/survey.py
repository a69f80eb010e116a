"""What the nodes of a job have: asked of each of them, and put together; and which nodes of the mesh that leaves out.

Nodes copy a stream only while somebody there wants it. So a streaming job holds a subscription as long as it lives and
reads nothing from it: it makes the events of the whole mesh come to one of the job's nodes, from which executors then
fetch them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from weft.client import Member, NodePositions, Options, Unavailable
from weft.client.blocking import Client
from weft.client.errors import is_retryable
from weft.errors import WeftError
from weft.limits import MEMBERS_MAX
from weft.model import Pattern
from weft.spark.connection import Connection
from weft.spark.holdings import Holdings, union
from weft.spark.offsets import Offsets, positions
from weft.spark.planning import lacking

SPARK_UNAVAILABLE_S: Final = 60.0  # for nodes to come back before a query fails: a restart takes less
SPARK_SILENT_S: Final = 30.0  # a node that did not answer is not waited for again so soon, while others answer
SPARK_ASK_S: Final = 10.0  # for one node's positions; a hundred thousand streams take some seconds
SPARK_OTHERS_AT_ONCE: Final = 16  # of these: each that is out of reach takes as long as the next line says
SPARK_OTHERS_CONNECT_S: Final = 2.0  # a node in the same network answers in milliseconds
LOG: Final = logging.getLogger("weft.spark")
ASKING: Final = Options(connect_timeout_s=SPARK_ASK_S / 2, call_timeout_s=SPARK_ASK_S, open_timeout_s=SPARK_ASK_S)
ASKING_OTHERS: Final = Options(
    connect_timeout_s=SPARK_OTHERS_CONNECT_S, call_timeout_s=SPARK_ASK_S, open_timeout_s=SPARK_ASK_S
)
# The smallest credit there is, and nothing to wait for at the end: what came is not looked at.
HOLDING: Final = Options(credit_bytes=1, connect_timeout_s=SPARK_ASK_S, close_timeout_s=0.1)
RETRY_S: Final = 1.0  # between two rounds of asking while nobody answers
SHOWN_MAX: Final = 10  # nodes or streams in one message


@dataclass(frozen=True, slots=True)
class Survey:
    """What the nodes that answered have together, and who did not answer. Nodes are known by address and by id."""

    answers: Mapping[str, NodePositions]  # by address
    silent: Mapping[str, WeftError]  # by address: those that were asked, and why they did not answer
    held: Holdings = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", union({address: each.streams for address, each in self.answers.items()}))

    @property
    def answered(self) -> frozenset[str]:
        """By id."""
        return frozenset(each.node_id for each in self.answers.values())

    def missing_members(self) -> dict[str, Member]:
        """The members of the mesh that have not answered, by id, as those know it that have."""
        answered = self.answered
        told = (member for each in self.answers.values() for member in each.members)
        return {member.node_id: member for member in told if member.node_id not in answered}

    def unread(self) -> list[Unread]:
        """Nodes that were asked and did not answer, and members that were not asked."""
        members = self.missing_members()
        ids = {address: member.node_id for member in members.values() for address in member.addresses}
        found = [
            Unread(ids.get(address), address, f"cannot be asked: {error}") for address, error in self.silent.items()
        ]
        named = {each.node for each in found}
        return found + [
            Unread(node, ", ".join(member.addresses), "was not asked")
            for node, member in sorted(members.items())
            if node not in named
        ]


@dataclass(frozen=True, slots=True)
class Unread:
    """A node whose events are not read, or not all of them."""

    node: str | None  # None: it never said its id, and no member of the mesh has that address
    address: str  # empty: not known
    why: str

    @property
    def name(self) -> str:
        return f"{self.node} ({self.address})" if self.node and self.address else self.node or self.address

    def __str__(self) -> str:
        return f"{self.name} {self.why}"


def left_out(survey: Survey, around: Survey) -> list[Unread]:
    """Nodes that have, or may have, what the nodes of a survey lack; ``around`` is what the other members said."""
    found = []
    for address, each in around.answers.items():
        places = [] if address in survey.answers else lacking(survey.held, union({address: each.streams}))
        if places:
            shown = listed(list(map(str, places)))
            found.append(Unread(each.node_id, address, f"is not named in option nodes and has more of {shown}"))
    return found + around.unread()


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - SHOWN_MAX
    return "; ".join(names[:SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


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

    def look_around(self, survey: Survey, *, others_max: int = MEMBERS_MAX) -> Survey:
        """The same with the other members of the mesh, as far as they are within reach. Asks them all at once."""
        addresses = [member.addresses[0] for member in survey.missing_members().values() if member.addresses]
        asked = [address for address in addresses if address not in survey.silent][:others_max]
        if not asked:
            return survey
        with ThreadPoolExecutor(min(SPARK_OTHERS_AT_ONCE, len(asked))) as pool:
            said = dict(zip(asked, pool.map(self._ask_other, asked), strict=True))
        answers = {address: each for address, each in said.items() if isinstance(each, NodePositions)}
        silent = {address: each for address, each in said.items() if isinstance(each, WeftError)}
        return Survey({**survey.answers, **answers}, {**survey.silent, **silent})

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
        found: dict[str, NodePositions] = {}
        silent: dict[str, WeftError] = {}
        for address in self._addresses:
            until_s, last = self._silent_until_s.get(address, (0.0, None))
            if last is not None and time.monotonic() < until_s and not patient:
                silent[address] = last
                continue
            try:
                found[address] = self._client(address).node_positions(self._pattern, timestamp=timestamp)
                self._silent_until_s.pop(address, None)
            except WeftError as error:
                if not is_retryable(error):
                    raise
                LOG.warning("node %s does not answer: %s", address, error)
                silent[address] = error
                self._silent_until_s[address] = (time.monotonic() + SPARK_SILENT_S, error)
        if len(silent) == len(self._addresses):
            self._silent_until_s.clear()  # with nobody left to hold up, all are asked again
        return Survey(found, silent)

    def _ask_other(self, address: str) -> NodePositions | WeftError:
        """In a thread of its own. Whatever is wrong with that node is for the caller to tell."""
        try:
            with self._connection.new_client(address, options=ASKING_OTHERS) as client:
                return client.node_positions(self._pattern)
        except WeftError as error:
            return error

    def _client(self, address: str) -> Client:
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = self._connection.new_client(address, options=ASKING)
        return client
