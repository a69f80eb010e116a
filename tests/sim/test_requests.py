"""Requests in the simulation: what is checked of them is found when it is broken (CON-04). That it holds is shown by
all seeds (``test_seeds``)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from tests.sim.lies import Lie, assert_found
from weft.core.call_messages import CallFault, Reply
from weft.core.calls import Calls
from weft.model import NodeId, Topic, parse_pattern
from weft.node.calls import NodeCalls
from weft.port.errors import NoServer, ServerLost
from weft.testing.sim import Violation
from weft.testing.sim.requests import HEARD_S_MAX, AskedOnce, RequestBook

pytestmark = pytest.mark.req("CON-04")

SUM = Topic("ask.sum")


# --- lies that a node could tell, planted in it ----------------------------------------------------------------------


def handed_on_when_a_server_is_lost() -> AbstractContextManager[Any]:
    """The next one does it again."""
    return mock.patch("weft.core.calls.RETRIED", frozenset(CallFault))


def knows_nothing_of_its_own_servers() -> AbstractContextManager[Any]:
    who = Calls.who
    return mock.patch.object(Calls, "who", lambda self, topic: [each for each in who(self, topic) if each != self._me])


def keeps_replies_to_itself() -> AbstractContextManager[Any]:
    """But for the last one."""
    replied = NodeCalls._replied

    def last_only(self: NodeCalls, number: int, reply: Reply) -> None:
        if reply.last:
            replied(self, number, reply)

    return mock.patch.object(NodeCalls, "_replied", last_only)


def gives_replies_to_another_asker() -> AbstractContextManager[Any]:
    replied = NodeCalls._replied

    def mixed_up(self: NodeCalls, number: int, reply: Reply) -> None:
        replied(self, max(self._pending, default=number), reply)

    return mock.patch.object(NodeCalls, "_replied", mixed_up)


LIES: list[tuple[Lie, tuple[int, ...]]] = [
    (handed_on_when_a_server_is_lost, (2, 3)),
    (knows_nothing_of_its_own_servers, (2, 3)),
    (keeps_replies_to_itself, (2, 3)),
    (gives_replies_to_another_asker, (2, 3)),
]


@pytest.mark.parametrize(("lie", "last_seen"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_a_planted_lie_is_found(lie: Lie, last_seen: tuple[int, ...]) -> None:
    assert_found(lie, last_seen)


# --- lies told to the book -------------------------------------------------------------------------------------------


def asked_once(book: RequestBook, *servers: str) -> AskedOnce:
    node: Any = mock.Mock(node_id=NodeId("a"), life=1, running=True, stopping=False)
    for server in servers:
        book.serves(node, server, parse_pattern("ask.*"))
    asked = AskedOnce(b"q 1", SUM, "q", node, 1, 0.0, 4.0, book.known_at(node, SUM))
    book.asked[asked.payload] = asked
    return asked


def test_a_request_that_is_handed_out_twice_or_was_never_asked_is_found() -> None:
    book = RequestBook()
    asked_once(book)
    book.check_handed("v0", b"q 1", SUM)
    with pytest.raises(Violation, match="v0 had before"):
        book.check_handed("v1", b"q 1", SUM)
    with pytest.raises(Violation, match="nobody asked that"):
        book.check_handed("v1", b"q 2", SUM)


def test_replies_of_others_and_out_of_order_are_found() -> None:
    book = RequestBook()
    asked = asked_once(book)
    with pytest.raises(Violation, match="nobody was handed"):
        book.check_reply("q", asked, Reply(b"q 1 0"))
    book.check_handed("v0", b"q 1", SUM)
    for asker, payload in (("q", b"q 1 1"), ("q", b"q 2 0"), ("other", b"q 1 0")):
        with pytest.raises(Violation, match="waits for"):
            book.check_reply(asker, asked, Reply(payload))
    book.check_reply("q", asked, Reply(b"q 1 0"))
    with pytest.raises(Violation, match="after its end"):
        book.check_reply("q", asked, Reply(b"q 1 1"))
    with pytest.raises(Violation, match="after its end"):
        book.check_failure("q", asked, ServerLost(""))


def test_nobody_while_there_was_a_server_is_found() -> None:
    book = RequestBook()
    book.check_failure("q", asked_once(book), NoServer(""))
    asked = asked_once(book, "v0")
    book.serves(asked.node, "v0", None)
    book.check_failure("q", asked, NoServer(""))  # it has left meanwhile
    with pytest.raises(Violation, match="did so there"):
        book.check_failure("q", asked_once(book, "v0"), NoServer(""))
    handed = asked_once(RequestBook())
    book.asked[handed.payload], book.handed[handed.payload] = handed, "v0"
    with pytest.raises(Violation, match="was handed out"):
        book.check_failure("q", handed, NoServer(""))


def test_failures_at_rest_and_silence_are_found() -> None:
    book = RequestBook()
    asked = asked_once(book)
    assert "waits for an answer" in book.waiting(1.0)
    with pytest.raises(Violation, match="has heard nothing"):
        book.waiting(4.1 + HEARD_S_MAX)
    book.at_rest = True
    with pytest.raises(Violation, match="at rest"):
        book.check_failure("q", asked, ServerLost(""))
    assert book.waiting(100.0) == ""
