"""What to believe when one node says something about another that does not sign (SEC-06). A bad node may say anything.

This matters in a mesh without keys, and for nodes of earlier versions. What a node has signed is not judged here.

- What a node says about itself, over its own link, is believed.
- If others say that a node has left or begun its next life, and we have a link to that node, we ask it. So a lie is
  refuted at once, and cannot expel a node whose link is up.
- Anything else is a rumour. It is believed, and if it is false, the node refutes it with a higher incarnation when it
  hears of it. So there must always be a higher one. An incarnation far beyond the known one is believed only after
  somebody has insisted on it for long, and the very last one is never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from weft.limits import INCARNATION_MAX
from weft.membership.state import Digest, Liveness
from weft.model import NodeId

INCARNATION_JUMP: Final = 1 << 42  # believed at once: enough to reach a clock in milliseconds from 0, until 2109
INSISTING_S: Final = 60.0  # to wait for each further jump of that size; the last incarnation is two years away
INSISTING_KEPT_MAX: Final = 1024  # nodes of which too high incarnations are claimed; the oldest claims go first


class Verdict(Enum):
    BELIEVE = "believe"
    ASK = "ask the node itself"
    REFUSE = "refuse"


@dataclass(slots=True)
class _Claim:
    """Somebody claims an incarnation that is too far from the known one: ``since_s`` says when it was first claimed,
    ``last_s`` when last."""

    known: int
    since_s: float
    last_s: float


class Rumours:
    def __init__(self) -> None:
        self._claims: dict[NodeId, _Claim] = {}

    def judge(self, heard: Digest, known: Digest, now_s: float, *, linked: bool) -> Verdict:
        """Judge what others say about a node. ``linked``: the node has a healthy link to us, so we can ask it."""
        if not self.is_near(heard, known, now_s):
            return Verdict.REFUSE
        if linked and not known.liveness.gone and not known.covers(heard):
            is_next_life = heard.incarnation > known.incarnation and known.liveness is Liveness.ALIVE
            if is_next_life or heard.liveness is Liveness.LEFT:
                return Verdict.ASK
        return Verdict.BELIEVE

    def is_near(self, heard: Digest, known: Digest, now_s: float) -> bool:
        """Whether an incarnation is near enough to the known one to be believed, or to be exceeded if it is our own. If
        it is not, it is remembered as a claim."""
        jump = heard.incarnation - known.incarnation
        if heard.incarnation >= INCARNATION_MAX:
            return False
        if jump <= INCARNATION_JUMP:
            return True
        claim = self._claims.pop(heard.node_id, None)
        if claim is None or claim.known != known.incarnation or now_s - claim.last_s > 2 * INSISTING_S:
            claim = _Claim(known.incarnation, now_s, now_s)
            if len(self._claims) >= INSISTING_KEPT_MAX:
                del self._claims[next(iter(self._claims))]
        claim.last_s = now_s
        self._claims[heard.node_id] = claim  # kept even if it is believed now, because the state comes after the digest
        return jump <= INCARNATION_JUMP * (1 + int((now_s - claim.since_s) / INSISTING_S))
