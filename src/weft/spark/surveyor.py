"""Asks the nodes of a mesh what they have: the named nodes, and the other members that they know of.

All nodes are asked at once, each in a thread of its own. The surveyor does not wait a second time for a node that did
not answer: it asks that node in the background, and uses its answer when it comes. So one dead node costs a job a few
seconds, once.

A node copies a stream only while it has a subscriber for it. So a streaming job holds a subscription as long as it
lives, and reads nothing from it. The subscription brings the events of the whole mesh to one of the job's nodes, where
they can be read when the node that accepted them is out of reach.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple, NoReturn, TypeAlias

from weft.client import NodePositions, Options, StreamPositions, Unavailable
from weft.client.blocking import Client
from weft.client.errors import is_retryable
from weft.errors import UsageError, WeftError
from weft.limits import MEMBERS_MAX
from weft.spark.connection import Access, Connection
from weft.spark.holdings import Holdings
from weft.spark.offsets import NamedTimes, Offsets, Place, positions
from weft.spark.options import Members, SourceOptions
from weft.spark.selection import Selection
from weft.spark.survey import Survey, listed

SPARK_UNAVAILABLE_S: Final = 60.0  # for nodes to come back before a query fails: a restart takes less
SPARK_ASK_S: Final = 10.0  # for one node's positions; a hundred thousand streams take some seconds
SPARK_PATIENT_S: Final = 2 * SPARK_ASK_S  # to connect and get an answer, on a busy machine
SPARK_GRACE_S: Final = 5.0  # how long to wait for slow nodes, the first time; later there is no waiting for them
SPARK_ASKED_AT_ONCE: Final = 64  # threads, most of which wait for a node; a mesh of 1,000 is asked in 16 rounds
LOG: Final = logging.getLogger("weft.spark")
ASKING: Final = Options(connect_timeout_s=SPARK_ASK_S / 2, call_timeout_s=SPARK_ASK_S, open_timeout_s=SPARK_ASK_S)
# The smallest credit possible, and nearly no wait when closing: nobody looks at the events that come.
HOLDING: Final = Options(credit_bytes=1, connect_timeout_s=SPARK_ASK_S, close_timeout_s=0.1)
RETRY_S: Final = 1.0  # between two rounds of asking while nobody answers

When: TypeAlias = datetime | NamedTimes | None  # ask also at which offsets these times are


class Question(NamedTuple):
    """What a node is asked."""

    when: When
    history: bool


class MemberUnread(UsageError):
    """A member of the mesh cannot be asked what it has, and the job wants all of them."""


class Surveyor:
    """Asks nodes for one job. Use it in one process and one thread, and close it."""

    def __init__(
        self,
        connection: Connection,
        selection: Selection,
        *,
        members: Members = Members.REACHABLE,
        needs_named: bool = True,
        is_read: Callable[[Place], bool] | None = None,
        history: bool = False,
    ) -> None:
        """``needs_named``: a complete survey needs the answers of the named nodes. ``history``: the archive tables of
        nodes count, too; it may be set later."""
        self.history = history
        self._connection = connection
        self._selection = selection
        self._members = members
        self._needs_named = needs_named
        self._is_read = is_read or selection.selects
        self._named = connection.addresses()
        self._others: dict[str, str] = {}  # the addresses of members that are not named, by id
        self._nodes: dict[str, _AskedNode] = {}
        self._silent: dict[str, WeftError] = {}
        self._holder: tuple[Access, Client] | None = None
        self._pool = ThreadPoolExecutor(SPARK_ASKED_AT_ONCE, thread_name_prefix="weft-survey")

    @classmethod
    def of(cls, options: SourceOptions, members: Members) -> Surveyor:
        """A surveyor for a source; ``members`` is the default if no option sets it."""
        return cls(
            options.connection,
            options.selection,
            members=options.members or members,
            needs_named=options.members is not Members.REACHABLE,
            is_read=options.is_read,
            history=options.history,
        )

    def look(self, when: When = None, *, complete: bool, patient: bool = True) -> Survey:
        """What the nodes have. Waits a while until one node has answered. With ``complete``, waits until all needed
        named nodes have answered, and all other members too if the job wants all members. With ``patient``, waits
        longer for slow nodes. Raises Unavailable or MemberUnread."""
        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
        while True:
            survey = self._look_once(when, patient=patient or complete)
            if not self._lacks(survey, complete):
                return survey
            if time.monotonic() > give_up_s or not _may_come_back(survey):
                self._give_up(survey, complete)
            time.sleep(RETRY_S)

    def look_for(self, is_there: Callable[[Survey], bool]) -> Survey:
        """What the nodes have, as soon as ``is_there`` accepts it, or as soon as no silent node is left that might have
        more. Waits a while for nodes that do not answer; then raises Unavailable or MemberUnread."""
        give_up_s = time.monotonic() + SPARK_UNAVAILABLE_S
        while True:
            survey = self.look(complete=True)
            if is_there(survey) or not survey.silent:
                return survey
            if time.monotonic() > give_up_s or not _may_come_back(survey):
                nodes = listed(list(map(str, survey.unread())))
                raise Unavailable("what is to be read may be on nodes that do not answer", nodes=nodes)
            time.sleep(RETRY_S)

    def hold(self) -> None:
        """Have the mesh send all events to one of our nodes from now on. Call it again later if no node answered."""
        try:
            access = self._connection.access()
            if self._holder is not None and self._holder[0] == access:
                return
            self._release()
            client = self._connection.new_client(*self._named, options=HOLDING)
        except WeftError as error:
            LOG.warning("cannot subscribe, so events of other nodes do not come: %s", error)
            return
        self._holder = access, client
        for pattern in self._selection.asked():
            client.subscribe(pattern, start="latest")

    def commit(self, group: str, offsets: Offsets, held: Holdings) -> None:
        """Report how far a job is: each stream's offset to the node that has it. Nodes that do not answer are skipped.
        Raises WeftError."""
        for address in (*self._named, *self._others.values()):
            known = {
                place: offset
                for place, offset in offsets.items()
                if place in held and held[place].home_of(offset) == address
            }
            if known and address not in self._silent:
                self._node(address).client().commit(group, positions(known))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.close()
        self._release()

    # --- one round -----------------------------------------------------------------------------------------------

    def _look_once(self, when: When, *, patient: bool) -> Survey:
        answers = self._asked((*self._named, *self._others.values()), when, patient=patient)
        if answers and self._members is not Members.NAMED:
            answers |= self._asked(self._learned(Survey(answers, self._silent)), when, patient=patient)
        wanted = {*self._named, *self._others.values()}
        return Survey(answers, {address: error for address, error in self._silent.items() if address in wanted})

    def _learned(self, survey: Survey) -> list[str]:
        """Add members that are new or have moved, drop those that are no longer members, and return the addresses to
        ask."""
        missing = survey.missing_members()
        self._others = {node: at for node, at in self._others.items() if node in missing or at in survey.answers}
        new: list[str] = []
        for node, member in missing.items():
            address = member.addresses[0] if member.addresses else None
            if address is None or address in survey.silent or len(self._others) >= MEMBERS_MAX:
                continue
            self._others[node] = address
            new.append(address)
        return new

    def _asked(self, addresses: Iterable[str], when: When, *, patient: bool) -> dict[str, NodePositions]:
        """What these nodes say, all asked at once; those that do not answer are recorded as silent."""
        asked = Question(when, self.history)
        late = {address: self._node(address).take_late(asked) for address in addresses}
        for address in (address for address, said in late.items() if said is not None):
            self._silent.pop(address, None)  # it is back: ask it again, and wait for it
        calls = {address: self._node(address).ask(self._pool, asked) for address in late}
        waited = [
            call
            for address, call in calls.items()
            if address not in self._silent or (patient and self._is_wanted(address))
        ]
        wait(waited or calls.values(), SPARK_PATIENT_S if patient else SPARK_GRACE_S)
        answers: dict[str, NodePositions] = {}
        for address, call in calls.items():
            if not call.done():
                if (before := late[address]) is not None:
                    answers[address] = before  # it is slow; its earlier answer is still true
                else:
                    self._fell_silent(address, Unavailable("it has not answered yet"))
                continue
            self._node(address).forget(asked)
            match call.result():
                case NodePositions() as said:
                    answers[address] = said
                    self._silent.pop(address, None)
                case WeftError() as error:
                    if address in self._named and not is_retryable(error):
                        raise error
                    self._fell_silent(address, error)
        return answers

    def _is_wanted(self, address: str) -> bool:
        """Whether a complete survey needs this node's answer."""
        return self._members is Members.ALL or (self._needs_named and address in self._named)

    def _fell_silent(self, address: str, error: WeftError) -> None:
        if address not in self._silent:
            LOG.warning("node %s does not answer: %s", address, error)
        self._silent[address] = error

    def _node(self, address: str) -> _AskedNode:
        if address not in self._nodes:
            self._nodes[address] = _AskedNode(self._connection, address, self._selection.asked(), self._is_read)
        return self._nodes[address]

    # --- who is missing ------------------------------------------------------------------------------------------

    def _lacks(self, survey: Survey, complete: bool) -> bool:
        if not survey.answers:
            return True
        if not complete:
            return False
        if survey.history_problems:
            return True
        return bool(survey.unread() if self._members is Members.ALL else self._missing(survey))

    def _missing(self, survey: Survey) -> set[str]:
        """The named nodes that are needed and did not answer."""
        return set(self._named) & survey.silent.keys() if self._needs_named else set()

    def _give_up(self, survey: Survey, complete: bool) -> NoReturn:
        missing = self._missing(survey)
        if survey.history_problems and not missing:
            raise Unavailable(
                f"archive tables cannot be asked what they have: {listed(survey.history_problems)}. "
                "Option history=false reads the logs only",
                waited_s=SPARK_UNAVAILABLE_S,
            )
        if survey.answers and complete and not missing:
            raise MemberUnread(
                f"events of the mesh may be missing: {listed(list(map(str, survey.unread())))}. Option "
                "members=reachable reads what there is and warns, members=named reads the named nodes only"
            )
        reasons = "; ".join(f"{address}: {error}" for address, error in survey.silent.items())
        what = "not all nodes of the job answer" if complete else "none of the job's nodes answers"
        raise Unavailable(what, waited_s=SPARK_UNAVAILABLE_S, reasons=reasons)

    def _release(self) -> None:
        if self._holder is not None:
            with suppress(WeftError):
                self._holder[1].close()
            self._holder = None


class _AskedNode:
    """One node: its client, and the calls that are under way."""

    def __init__(
        self, connection: Connection, address: str, patterns: Sequence[str], is_read: Callable[[Place], bool]
    ) -> None:
        self._connection = connection
        self._address = address
        self._patterns = patterns
        self._is_read = is_read
        self._calls: list[tuple[Question, Future[NodePositions | WeftError]]] = []
        self._lock = threading.Lock()  # calls with different questions may run at the same time
        self._access: Access | None = None
        self._client: Client | None = None
        self._is_closed = False

    def ask(self, pool: ThreadPoolExecutor, question: Question) -> Future[NodePositions | WeftError]:
        """The running call for this question, or a new one."""
        for asked, call in self._calls:
            if asked == question:
                return call
        call = pool.submit(self._answer, question)
        self._calls.append((question, call))
        return call

    def take_late(self, question: Question) -> NodePositions | None:
        """The answer that came after we had stopped waiting; it may be old."""
        for asked, call in self._calls:
            if asked == question and call.done() and isinstance(said := call.result(), NodePositions):
                self.forget(question)
                return said
        return None

    def forget(self, question: Question) -> None:
        """Drop the finished call for this question."""
        self._calls = [(asked, call) for asked, call in self._calls if asked != question]

    def client(self) -> Client:
        """A client with the current key. If the key was replaced, the client with the old key is closed."""
        with self._lock:
            access = self._connection.access()
            if self._client is None or self._access != access:
                self._drop()
                self._client, self._access = self._connection.new_client(self._address, options=ASKING), access
            return self._client

    def close(self) -> None:
        """Close without waiting for a client that is just being made: the thread that makes it closes it."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        if self._client is not None:
            with suppress(WeftError):
                self._client.close()
            self._client = None

    def _answer(self, question: Question) -> NodePositions | WeftError:
        """Runs in a thread of its own. Returns errors instead of raising them: the caller reports them."""
        try:
            return self._positions(self.client(), question)
        except WeftError as error:
            return error
        finally:
            if self._is_closed:
                self.close()

    def _positions(self, client: Client, question: Question) -> NodePositions:
        when = question.when
        streams: dict[Place, StreamPositions] = {}
        answers: list[NodePositions] = []
        for at in _times(when):
            for pattern in self._patterns:
                answers.append(client.node_positions(pattern, timestamp=at, history=question.history))
                for each in answers[-1].streams:
                    place = Place(each.stream, each.epoch)
                    if self._is_read(place) and (not isinstance(when, NamedTimes) or when.of(place) in (None, at)):
                        streams[place] = each
        problem = next((each.history_problem for each in answers if each.history_problem), "")
        return NodePositions(answers[0].node_id, tuple(streams.values()), answers[-1].members, problem)


def _times(when: When) -> Sequence[datetime | None]:
    """The times to ask for; a node takes one in each call."""
    return sorted(set(when.by_key.values())) or [None] if isinstance(when, NamedTimes) else [when]


def _may_come_back(survey: Survey) -> bool:
    """Whether waiting helps: a node that refuses goes on refusing, and one without an address cannot be asked."""
    waits = not survey.answers or bool(survey.silent) or bool(survey.history_problems)
    return all(map(is_retryable, survey.silent.values())) and waits
