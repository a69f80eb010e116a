"""What to believe when one node says something about another that does not sign (SEC-06): a bad node may say anything.

This matters in a mesh without keys, and for nodes of earlier versions. What nodes have signed is not judged here.

- A node itself is believed, over its own link.
- A node with a link to the other one asks it, instead of believing others that it has left or begun its next life: so a
  lie is refuted at once, and cannot expel a node whose link is up.
- Anything else is a rumour. It is believed, and the node refutes it when it hears of it, by a higher incarnation. So
  there must be a higher one: an incarnation far beyond the known one is believed only after somebody has insisted on it
  for long, and the very last one is never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from weft.limits import INCARNATION_MAX
from weft.membership.state import Digest, Liveness
from weft.model import NodeId

INCARNATION_JUMP: Final = 1 << 42  # believed at once: from nothing to a clock in milliseconds, until the year 2109
INSISTING_S: Final = 60.0  # for each further jump of that size: two years until the last incarnation
INSISTING_KEPT_MAX: Final = 1024  # nodes with claims that are too far ahead; the oldest go first


class Verdict(Enum):
    BELIEVE = "believe"
    ASK = "ask the node itself"
    REFUSE = "refuse"


@dataclass(slots=True)
class _Claim:
    """Somebody claims an incarnation that is too far from the known one: since when, and until when."""

    known: int
    since_s: float
    last_s: float


class Rumours:
    def __init__(self) -> None:
        self._claims: dict[NodeId, _Claim] = {}

    def judge(self, heard: Digest, known: Digest, now_s: float, *, linked: bool) -> Verdict:
        """Judge what others say about a node. ``linked``: it has a healthy link to us, so we can ask it."""
        if not self.is_near(heard, known, now_s):
            return Verdict.REFUSE
        if linked and not known.liveness.gone and not known.covers(heard):
            is_next_life = heard.incarnation > known.incarnation and known.liveness is Liveness.ALIVE
            if is_next_life or heard.liveness is Liveness.LEFT:
                return Verdict.ASK
        return Verdict.BELIEVE

    def is_near(self, heard: Digest, known: Digest, now_s: float) -> bool:
        """Whether an incarnation may be believed, or stepped over if it is our own. One that may not is a claim."""
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
        self._claims[heard.node_id] = claim  # also if it is believed: the state follows the digest
        return jump <= INCARNATION_JUMP * (1 + int((now_s - claim.since_s) / INSISTING_S))
