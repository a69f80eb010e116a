"""Requests of other nodes that pass through this one (CON-04): if the link over which one was sent on breaks, its asker
is told.

The asker's node may not be on that link, and may still reach the server's node by another way, so it would not notice.
Nobody knows whether the request had arrived, or whether its reply was under way. So the asker is told that the request
is lost.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from weft.core.call_messages import CallFault, CallFrame, CallKey, Cancel, Question, Refusal, Reply
from weft.model import NodeId

CALLS_PASSING_MAX: Final = 16_384  # about 300 bytes each; older ones are dropped, and end by their time-out


class Passed(NamedTuple):
    """``target`` has the request, or will have it; it was sent on to ``hop``. After ``until_s`` nobody waits for it."""

    target: NodeId
    hop: NodeId
    until_s: float


class Passing:
    """Requests that seem not to be over. Some may be, because an answer can take another way."""

    def __init__(self) -> None:
        self._passed: OrderedDict[CallKey, Passed] = OrderedDict()

    def __len__(self) -> int:
        return len(self._passed)

    def pass_on(self, frame: CallFrame, hop: NodeId, now_s: float) -> None:
        match frame.body:
            case Question(timeout_s=timeout_s):
                self._passed[CallKey(frame.source, frame.number)] = Passed(frame.target, hop, now_s + timeout_s)
                self._forget_oldest(now_s)
            case Cancel():
                self._passed.pop(CallKey(frame.source, frame.number), None)
            case Refusal() | Reply(last=True):
                self._passed.pop(CallKey(frame.target, frame.number), None)
            case _:
                pass

    def link_down(self, peer: NodeId) -> list[CallFrame]:
        """What to tell the askers. It is sent in the name of the nodes that they asked, because askers accept answers
        only from those."""
        lost = [key for key, passed in self._passed.items() if passed.hop == peer]
        refusal = Refusal(CallFault.LOST, f"a link to {peer} broke on its way")
        return [CallFrame(self._passed.pop(key).target, key.origin, key.number, refusal) for key in lost]

    def _forget_oldest(self, now_s: float) -> None:
        while self._passed:
            oldest = next(iter(self._passed))
            if self._passed[oldest].until_s > now_s and len(self._passed) <= CALLS_PASSING_MAX:
                return
            del self._passed[oldest]
