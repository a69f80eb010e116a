"""A running node changes its keys, and its relationships stay (EMC-05)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emm_compact.nodes import mesh, take, until
from tests.emm_compact.world import GROUP_KEY, World, node_id, ring_of, ring_pairs, signer
from weft.emm_compact import ChangeKind, KeyRing, Signer
from weft.wire.emm_compact import Heartbeat, decode_untrusted, fingerprint
from weft.wire.reject import Reject

NEW_GROUP = b"n" * 32
NEW_SEED = b"s" * 32
NODES = 4


def rings(*group_keys: bytes) -> KeyRing:
    """Everybody's keys; of node 0 the old and the new one."""
    by_node_id = dict(ring_of(range(NODES)).by_node_id)
    by_node_id[node_id(0).bytes] += (Signer(NEW_GROUP, NEW_SEED).public_key,)
    return KeyRing(group_keys, by_node_id)


@pytest.mark.req("EMC-05")
def test_the_group_key_is_replaced_node_by_node_while_events_flow() -> None:
    world = World(NODES)
    world.link(*ring_pairs(NODES))
    for place in world.places:
        place.session.ring = rings(GROUP_KEY, NEW_GROUP)
    for place in world.places:
        place.session.signer = replace(place.session.signer, group_key=NEW_GROUP)
        world.publish(place.number, f"from {place.number}")
        world.run(45)  # enough for heartbeats to be missed
    for place in world.places:
        place.session.ring = rings(NEW_GROUP)
    world.publish(0, "at last")
    world.run(60)
    for place in world.places:
        others = {f"from {number}" for number in range(NODES)} - {f"from {place.number}"}
        assert set(place.texts) - {"at last"} == others
        assert "at last" in place.texts or place.number == 0
        assert [change.kind for change in place.changes] == [ChangeKind.JOINED] * 2, "nobody was lost"
        assert not place.session.figures.rejected[Reject.BAD_HMAC]


@pytest.mark.req("EMC-05")
def test_a_node_signs_with_another_key_of_its_own_from_one_moment_to_the_next() -> None:
    world = World(NODES)
    world.link(*ring_pairs(NODES))
    for place in world.places:
        place.session.ring = rings(GROUP_KEY)
    world.command(0, "before")
    world.run(0.5)
    world.places[0].session.signer = Signer(GROUP_KEY, NEW_SEED)
    world.command(0, "after")
    world.run(0.5)
    assert [[each.body.name for each in place.commands] for place in world.places[1:]] == [["before", "after"]] * 3
    mark = len(world.wire)
    world.run(60)
    heartbeats = [decode_untrusted(each.data).body for who, _, each in world.wire[mark:] if who == 0]
    origins = {each.propagation.origin for each in heartbeats if isinstance(each, Heartbeat)}
    assert origins == {fingerprint(Signer(GROUP_KEY, NEW_SEED).public_key)}
    assert world.places[0].neighbours == {1, 3}


def test_a_key_that_nobody_was_told_of_is_refused() -> None:
    world = World(2)
    world.link((0, 1))
    world.places[0].session.signer = Signer(GROUP_KEY, NEW_SEED)
    world.command(0, "stop")
    world.run(0.5)
    assert not world.places[1].commands
    assert world.places[1].session.figures.rejected[Reject.BAD_SIGNATURE] == 1


@pytest.mark.req("EMC-05")
async def test_a_real_node_changes_its_keys() -> None:
    obeyed: list[bytes] = []
    async with mesh([(0, 1)]) as (first, second):
        second.on_command("mark")(obeyed.append)
        for each in (first, second):
            each.use_keys(rings(GROUP_KEY, NEW_GROUP))
        first.use_keys(rings(GROUP_KEY, NEW_GROUP), Signer(NEW_GROUP, NEW_SEED))
        second.use_keys(rings(NEW_GROUP), replace(signer(1), group_key=NEW_GROUP))
        await first.publish("with the new one")
        await first.command("mark", b"x")
        assert [event.text for event in await take(second, 1)] == ["with the new one"]
        await until(lambda: obeyed == [b"x"])
        assert [len(each.relationships) for each in (first, second)] == [1, 1]
