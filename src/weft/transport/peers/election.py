"""Which connection stays if two nodes have several: the one that the node with the higher id dialled, in whatever order
things happen (PL-01).

A connection is made in two steps: both sides say hello on the event stream, then the dialler commits by opening the
control stream. In between, either side may know of another connection of the two that is better:

- The dialler gives up its own if it has a better one, and commits otherwise. So a dialler that commits has nothing
  better.
- The other side replaces its connection with the committed one. There is one exception: its connection is its own dial,
  it has the higher id, and the peer may have committed before it knew of that dial (their dials crossed). If the peer
  said hello when this side's connection already stood, and still commits, it has lost that connection. Then what stands
  here is half-open, and is closed.

Peers without a control stream commit with their hello. This module only decides which connections stay; the caller
closes the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from weft.model import NodeId
from weft.wire.mesh.lives import Life


class Candidate(Protocol):
    """What the election knows of a connection, once its peer has said hello."""

    @property
    def peer(self) -> NodeId: ...

    @property
    def dialled_by_us(self) -> bool: ...

    @property
    def plain(self) -> bool:
        """Whether there is no control stream, and so no second step."""

    @property
    def incarnation(self) -> int:
        """The incarnation that the peer named: it grows when a node starts."""

    @property
    def life(self) -> Life | None:
        """The peer's life, if it named one."""


C = TypeVar("C", bound=Candidate)


@dataclass(slots=True)
class Contest(Generic[C]):
    """All connections with one peer."""

    standing: C | None = None
    # Our dials that we committed to, and the peer's dials that said hello. Each has the connection that stood then.
    made: list[tuple[C, C | None]] = field(default_factory=list)


class Election(Generic[C]):
    """The connections with all peers of one node. ``own_id`` decides between dials of both sides."""

    def __init__(self, own_id: NodeId) -> None:
        self._own_id = own_id
        self._contests: dict[NodeId, Contest[C]] = {}

    def standing(self, peer: NodeId) -> C | None:
        contest = self._contests.get(peer)
        return contest.standing if contest else None

    def on_hello(self, candidate: C, replaced: C | None = None) -> bool:
        """Both sides have said hello. Return False if there is a better connection; then give this one up.

        ``replaced`` is a dial of ours that the candidate is to replace, so it does not count as better.
        """
        contest = self._contests.setdefault(candidate.peer, Contest())
        replaces = replaced is not None and contest.standing is replaced and not contest.made
        if candidate.dialled_by_us and not replaces and not self._worth_committing(candidate, contest):
            return False
        contest.made.append((candidate, contest.standing))
        return True

    def on_commit(self, candidate: C) -> list[C] | None:
        """Both steps are done. If this returns None, give the candidate up. Otherwise it stands from now on, and the
        caller has to close the connections that are returned."""
        contest = self._contests[candidate.peer]
        stood = next(stood for made, stood in contest.made if made is candidate)
        if not candidate.dialled_by_us and not self._acceptable(candidate, contest, stood):
            return None
        losers = [made for made, _ in contest.made if made.dialled_by_us and made is not candidate]
        if contest.standing is not None:
            losers.append(contest.standing)
        contest.made = [entry for entry in contest.made if entry[0] is not candidate]
        contest.standing = candidate
        return losers

    def on_closed(self, candidate: C) -> None:
        """A connection is gone, at any step. Those that the election never saw are ignored."""
        contest = self._contests.get(candidate.peer)
        if contest is None:
            return
        if contest.standing is candidate:
            contest.standing = None
        contest.made = [entry for entry in contest.made if entry[0] is not candidate]
        if contest.standing is None and not contest.made:
            del self._contests[candidate.peer]

    def _worth_committing(self, ours: C, contest: Contest[C]) -> bool:
        """Whether to go on with our dial, now that we know which node answered."""
        if any(made.dialled_by_us for made, _ in contest.made):
            return False  # another address of the same peer
        standing = contest.standing
        if standing is not None and _is_of_next_life(ours, standing):
            return True  # the connection that stands is half-open
        if standing is not None and standing.dialled_by_us:
            return False
        return self._we_decide(ours) or (standing is None and not contest.made)

    def _acceptable(self, theirs: C, contest: Contest[C], stood: C | None) -> bool:
        """Whether to accept what the peer has committed to."""
        standing = contest.standing
        if not self._we_decide(theirs):
            return True
        if standing is not None and _is_of_next_life(theirs, standing):
            return True
        if standing is None or not standing.dialled_by_us:
            return not any(made.dialled_by_us for made, _ in contest.made)  # our own dial is under way, and will stay
        # If the peer commits although it knows our connection, it has lost that one. Without a second step, the commit
        # does not tell us this.
        return not theirs.plain and stood is standing

    def _we_decide(self, candidate: C) -> bool:
        return self._own_id > candidate.peer


def _is_of_next_life(candidate: Candidate, standing: Candidate) -> bool:
    """Whether the peer was started again since. (It may also have a twin; which twin stays is decided elsewhere.)"""
    return candidate.incarnation > standing.incarnation or candidate.life != standing.life
