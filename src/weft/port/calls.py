"""Requests and replies, as services and gateways see them: who asks, who serves, and the desk between them."""

from __future__ import annotations

from typing import Protocol

from weft.core.call_messages import CALL_PAYLOAD_BYTES_MAX, CALL_TIMEOUT_S_MAX, Question, Reply
from weft.core.topics import is_own
from weft.errors import UsageError, WeftError
from weft.model import Pattern
from weft.port.errors import TooLarge
from weft.wire.mesh.checks import check_headers


class CallClient(Protocol):
    """A client that asks, serves, or both. It numbers its own calls and servers. A ``handle`` is the node's number for
    a request that a server gets."""

    def replied(self, number: int, reply: Reply) -> None: ...

    def failed(self, number: int, error: WeftError) -> None:
        """That call has failed: no more replies come."""

    def handed(self, server: int, handle: int, question: Question) -> None: ...

    def over(self, handle: int) -> None:
        """Nobody waits for replies to that request any longer."""

    def took(self, handle: int, count: int) -> None: ...

    def ended(self, error: WeftError) -> None:
        """All calls and servers of this client have ended."""


class CallDesk(Protocol):
    """Passes requests and replies between clients. Refusals are reported through ``failed``. ``join`` raises
    ShuttingDown or Busy if no more clients are accepted."""

    def join(self, client: CallClient) -> None: ...

    def leave(self, client: CallClient) -> None:
        """Cancel the client's calls. Requests that its servers have are lost."""

    def ask(self, client: CallClient, number: int, question: Question, *, probe: bool = False) -> None: ...

    def cancel(self, client: CallClient, number: int) -> None: ...

    def took_replies(self, client: CallClient, number: int, count: int) -> None: ...

    def serve(self, client: CallClient, server: int, pattern: Pattern, slots: int) -> None: ...

    def stop_serving(self, client: CallClient, server: int, *, gone: bool) -> None: ...

    def answer(self, client: CallClient, handle: int, reply: Reply) -> None:
        """Raise UsageError for a request that this client never got. Answers that come too late are ignored."""


def checked_question(question: Question) -> Question:
    """Check a client's question; raise UsageError or BadMeshMessage if nobody may ask it."""
    if is_own(question.topic):
        raise UsageError("requests cannot be sent on internal topics of the mesh", topic=question.topic)
    if not 0 < question.timeout_s <= CALL_TIMEOUT_S_MAX:  # also refuses NaN
        raise UsageError(
            "the timeout of a request is out of range", timeout_s=question.timeout_s, most=CALL_TIMEOUT_S_MAX
        )
    if len(question.payload) > CALL_PAYLOAD_BYTES_MAX:
        raise TooLarge("payload of a request is too large", have=len(question.payload), limit=CALL_PAYLOAD_BYTES_MAX)
    check_headers(question.headers)
    return question
