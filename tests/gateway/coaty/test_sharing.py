"""Several bridges: each event is one bridge's, and what came from the mesh is known by its mark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.coaty import new_id
from weft.core.groups.names import parse_group
from weft.gateway.coaty.sharing import BRIDGES_MAX, Sharing, bridge_object, group_of, is_marked, mark_of, marked

IDS = [new_id() for _ in range(4)]


def bridges(count: int) -> list[Sharing]:
    sharing = [Sharing(own, "mesh") for own in IDS[:count]]
    for one in sharing:
        for other in IDS[:count]:
            one.advertised(bridge_object(other, "b", "mesh"))
    return sharing


@given(st.integers(1, 4), st.text(), st.binary())
def test_exactly_one_brings_an_event_over(count: int, topic: str, payload: bytes) -> None:
    assert sum(one.is_ours(topic, payload) for one in bridges(count)) == 1


def test_work_is_shared_and_taken_over() -> None:
    one, other, *_ = bridges(2)
    events = [b"%d" % number for number in range(200)]
    ours = sum(one.is_ours("t", event) for event in events)
    assert 50 < ours < 150
    one.deadvertised(IDS[1])
    assert all(one.is_ours("t", event) for event in events)
    assert other.others == (IDS[0],)


def test_strangers_are_no_bridges() -> None:
    sharing = Sharing(IDS[0], "mesh")
    sharing.advertised(bridge_object(IDS[1], "b", "another mesh"))
    sharing.advertised({"objectId": IDS[2], "objectType": "com.weft.Pump", "coreType": "CoatyObject", "name": "p"})
    assert sharing.others == ()
    for _ in range(BRIDGES_MAX + 5):
        sharing.advertised(bridge_object(new_id(), "b", "mesh"))
    assert len(sharing.others) == BRIDGES_MAX


@given(st.text(min_size=1, max_size=236))
def test_every_namespace_has_a_group_of_its_own(namespace: str) -> None:
    if "\x00" in namespace or any("\ud800" <= each <= "\udfff" for each in namespace):
        return
    assert parse_group(group_of(namespace)) == group_of(namespace)
    assert group_of(namespace) != group_of(namespace + "x")


def test_marks_tell_meshes_apart() -> None:
    seqno = marked(mark_of("mesh"), bytes)
    assert is_marked(seqno, mark_of("mesh"))
    assert not is_marked(seqno, mark_of("other"))
    assert not is_marked(mark_of("mesh"), mark_of("mesh"))
