"""One bad node tells lies of others: nobody is expelled by them (SEC-06)."""

from __future__ import annotations

import pytest

from tests.membership.world import World
from weft.limits import INCARNATION_MAX
from weft.membership import (
    Digest,
    Effect,
    Gossip,
    GossipRefused,
    Liveness,
    MemberChanged,
    MessageReceived,
    NodeState,
    Settings,
)
from weft.membership.rumours import INCARNATION_JUMP, INSISTING_S
from weft.model import Epoch, NodeId

A, B, C, EVIL = (NodeId(name) for name in ("a", "b", "c", "evil"))
HEALED_S = 20.0  # many rounds of gossip
NOW_MS = 1_800_000_000_000


class Mesh:
    """``c - a - b`` and ``a - evil``, all alive. Writes down whom anybody thought to be gone."""

    def __init__(self) -> None:
        self.world = World(1, Settings())
        self.gone: list[tuple[NodeId, NodeId]] = []
        self.refused: list[tuple[NodeId, NodeId]] = []
        self.world.start("a", incarnation=NOW_MS)
        for name in ("b", "c", "evil"):
            self.world.start(name, ["a:1"], incarnation=NOW_MS)
        self.world.run(HEALED_S)
        self.world.on_effect = self._note
        self.check_healed()

    def _note(self, observer: NodeId, effect: Effect) -> None:
        match effect:
            case MemberChanged(_, after) if after.liveness.gone:
                self.gone.append((observer, after.node_id))
            case GossipRefused(peer):
                self.refused.append((observer, peer))
            case _:
                pass

    def lie(self, to: NodeId, *, incarnation: int, liveness: Liveness, whole: bool) -> None:
        """Evil tells somebody of b."""
        state = NodeState(B, incarnation, 1, Epoch(1), liveness)
        gossip = Gossip((), (state,)) if whole else Gossip((Digest(B, incarnation, 1, liveness),), ())
        self.world.tell(to, MessageReceived(EVIL, gossip))

    def incarnation_of_b(self) -> int:
        return self.world.nodes[B].members.own.incarnation

    def check_healed(self) -> None:
        own = self.world.nodes[B].members.own
        for observer in (A, C):
            seen = self.world.nodes[observer].members.states[B]
            assert (seen.incarnation, seen.liveness, seen.neighbours) == (own.incarnation, Liveness.ALIVE, (A,))
        assert own.liveness is Liveness.ALIVE


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("whole", [True, False], ids=["state", "digest"])
@pytest.mark.parametrize("liveness", list(Liveness))
@pytest.mark.parametrize("jump", [0, 1, 1000, INCARNATION_JUMP])
def test_who_is_linked_to_a_node_never_takes_it_for_gone(jump: int, liveness: Liveness, whole: bool) -> None:
    """And within seconds all agree with the node itself, whatever was said; within a minute more, where it had to step
    so far that others do not believe it at once."""
    mesh = Mesh()
    mesh.lie(A, incarnation=mesh.incarnation_of_b() + jump, liveness=liveness, whole=whole)
    mesh.world.run(HEALED_S if jump < INCARNATION_JUMP else HEALED_S + INSISTING_S)
    assert (A, B) not in mesh.gone
    mesh.check_healed()


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("to", [A, B, C])
@pytest.mark.parametrize("incarnation", [INCARNATION_MAX, INCARNATION_MAX - 1, 1 << 61])
def test_an_incarnation_that_nobody_could_step_over_is_refused_and_told(to: NodeId, incarnation: int) -> None:
    """The attack that worked: one message (b, 2^62 - 1, LEFT) expelled b until both nodes were started again."""
    mesh = Mesh()
    before = mesh.incarnation_of_b()
    for liveness in Liveness:
        mesh.lie(to, incarnation=incarnation, liveness=liveness, whole=True)
        mesh.lie(to, incarnation=incarnation, liveness=liveness, whole=False)
    mesh.world.run(HEALED_S)
    assert not mesh.gone
    assert mesh.refused == [(to, EVIL)] * 8
    assert mesh.incarnation_of_b() == before
    mesh.check_healed()


@pytest.mark.req("SEC-06")
def test_a_lie_to_those_who_have_no_link_is_refuted_within_seconds() -> None:
    mesh = Mesh()
    mesh.lie(C, incarnation=mesh.incarnation_of_b(), liveness=Liveness.LEFT, whole=False)
    assert mesh.gone == [(C, B)], "a rumour, until b has heard of it"
    mesh.world.run(HEALED_S)
    assert mesh.gone == [(C, B)]
    mesh.check_healed()


@pytest.mark.req("SEC-06")
def test_it_can_declare_itself_gone() -> None:
    mesh = Mesh()
    left = NodeState(EVIL, NOW_MS, 99, Epoch(1), Liveness.LEFT)
    mesh.world.tell(A, MessageReceived(EVIL, Gossip((), (left,))))
    assert mesh.gone == [(A, EVIL)]
