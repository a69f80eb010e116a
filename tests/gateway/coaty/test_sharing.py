"""Several bridges: each event is one bridge's, and what came from the mesh is known by its mark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.coaty import new_id
from weft.core.groups.names import parse_group
from weft.gateway.coaty import sharing as sharing_room
from weft.gateway.coaty.sharing import (
    COATY_HELD_S,
    MAGIC,
    Bridge,
    Heard,
    Held,
    Sharing,
    group_of,
    is_marked,
    mark_of,
    marked,
)

IDS = [new_id() for _ in range(4)]


def bridges(count: int) -> list[Sharing]:
    everybody = [Bridge(own, f"peer of {own}", "island") for own in IDS[:count]]
    sharing = [Sharing(own) for own in IDS[:count]]
    for one in sharing:
        one.told(everybody)
        for bridge in everybody:
            one.came(bridge.peer)
    return sharing


@given(st.integers(1, 4), st.text(), st.sets(st.integers(0, 3)))
def test_exactly_one_brings_over_what_a_peer_says(count: int, origin: str, deaf: set[int]) -> None:
    sharing = bridges(count)
    assert sum(one.is_ours(origin) for one in sharing) == 1
    hearing = {one for number, one in enumerate(IDS[:count]) if number not in deaf}
    listening = [one for own, one in zip(IDS, sharing, strict=False) if own in hearing]
    shares = [one.is_ours(origin, lambda bridge: bridge.agent_id in hearing) for one in listening]
    assert sum(shares) == min(1, len(hearing)), "those that do not listen to a topic are left out"


def test_work_is_shared_and_taken_over() -> None:
    one, other, *_ = bridges(2)
    peers = [new_id() for _ in range(200)]
    ours = sum(one.is_ours(peer) for peer in peers)
    assert 50 < ours < 150
    assert [bridge.agent_id for bridge in other.others] == [IDS[0]]
    assert one.left(f"peer of {IDS[1]}")
    assert all(one.is_ours(peer) for peer in peers)


def test_a_bridge_takes_part_while_it_is_known_and_connected() -> None:
    sharing, other = Sharing(IDS[0]), Bridge(IDS[1], "peer", "north")
    assert not sharing.came("peer"), "any agent, as far as we know"
    assert sharing.told([other, Bridge(IDS[2], "elsewhere", "south"), Bridge(IDS[0], "own", "west")])
    assert sharing.others == (other,)
    assert sharing.islands == {"north"}
    assert sharing.told([Bridge(IDS[1], "peer", "")])
    assert sharing.islands == frozenset(), "it does not know yet"
    assert sharing.left("peer")
    assert not sharing.others
    assert not sharing.left("peer")


@given(st.text(min_size=1, max_size=236))
def test_every_namespace_has_a_group_of_its_own(namespace: str) -> None:
    if "\x00" in namespace or any("\ud800" <= each <= "\udfff" for each in namespace):
        return
    assert parse_group(group_of(namespace, "i")) == group_of(namespace, "i")
    assert len({group_of(namespace, "i"), group_of(namespace + "x", "i"), group_of(namespace, "j")}) == 3


@pytest.mark.req("COA-12")
def test_marks_tell_meshes_apart() -> None:
    seqno = marked(mark_of("mesh"), "event")
    assert seqno == marked(mark_of("mesh"), "event") != marked(mark_of("mesh"), "another")
    assert is_marked(seqno, mark_of("mesh"))
    assert not is_marked(seqno, mark_of("other"))
    assert is_marked(seqno, MAGIC)
    assert not is_marked(b"12345678", MAGIC), "as the reference's are"
    assert not is_marked(mark_of("mesh"), mark_of("mesh"))


# --- what is left to others ------------------------------------------------------------------------------------------


def heard(number: int, origin: str = "peer") -> Heard:
    return Heard("coaty/1/plant/CHNline1", b"%d" % number, f"identity {number}", origin)


def test_what_the_mesh_has_is_let_go_of_and_the_rest_is_taken_over() -> None:
    held = Held()
    for number in range(4):
        held.keep(heard(number, f"peer {number % 2}"), now_s=0.0)
    held.keep(heard(0, "peer 0"), now_s=1.0)
    assert len(held) == 4, "the same event once"
    held.release("identity 1")
    held.release("unknown")
    assert list(held.take(lambda event: event.origin == "peer 0")) == [heard(0, "peer 0"), heard(2, "peer 0")]
    assert len(held) == 1


def test_what_is_held_is_bounded_in_time_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    held.keep(heard(0), now_s=0.0)
    held.keep(heard(1), now_s=10.0)
    held.expire(COATY_HELD_S)
    assert [event.payload for event in held.take(lambda event: True)] == [b"1"]
    monkeypatch.setattr(sharing_room, "COATY_HELD_MAX", 2)
    for number in range(3):
        held.keep(heard(number), now_s=0.0)
    assert (len(held), held.forgotten) == (2, 1)
    monkeypatch.setattr(sharing_room, "COATY_HELD_BYTES_MAX", 1)
    held.keep(heard(9), now_s=0.0)
    assert [event.payload for event in held.take(lambda event: True)] == [b"9"]
