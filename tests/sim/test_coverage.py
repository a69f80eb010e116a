"""The seeds bring about what they are there for. A fault that never happens proves nothing, and nobody would notice."""

from __future__ import annotations

from collections import Counter

from weft.testing.sim import World, run

# Those that show everything together, as of now, and then all: once nothing is missing, the rest does not run.
SEEDS = dict.fromkeys((18, 26, 27, 28, 31, 39, 14, *range(40)))


def happened(world: World) -> Counter[str]:
    logs = Counter(stream for (stream, _), history in world.truth.streams.items() if history.end)
    return Counter(
        {
            "receipts": world.desk.receipts,
            "deliveries": world.truth.events_delivered,
            "refusals": len(world.truth.refused),
            "batches in doubt for ever": sum(publisher.in_doubt for publisher in world.publishers),
            "lost disks": len(world.truth.lost),
            "streams that began anew after that": sum(count > 1 for count in logs.values()),
            "streams cut by retention": sum(history.expired > 0 for history in world.truth.streams.values()),
            "groups moved back": sum(book.moves for book in world.groups),
            "nodes gone for good": sum(node.retired for node in world.nodes.values()),
            "restarts": sum(node.life - 1 for node in world.nodes.values()),
            "second connections of two nodes": world.network.crossings,
            "drops from outboxes": sum(node.dropped for node in world.nodes.values()),
            "links without heartbeats": sum(node.health_lost for node in world.nodes.values()),
            "syncs that met a full disk": sum(node.disk.store.refusals for node in world.nodes.values()),
            "nodes that failed": sum(node.failures for node in world.nodes.values()),
            "events delivered later": len(world.later.delivered),
            "events cancelled in time": len(world.later.cancelled),
            "events for later that were refused": sum(client.refused for client in world.later_clients),
            "copies that began in the middle": sum(node.begun for node in world.nodes.values()),
            "pieces of the past": sum(node.pasts for node in world.nodes.values()),
            "plain peers": len(world.desk.plain),
            "events lost on the way from plain peers": sum(len(peer.lost) for peer in world.desk.plain.values()),
            "events that plain peers forgot": sum(len(peer.forgotten) for peer in world.desk.plain.values()),
        }
    )


def test_every_kind_of_trouble_happens() -> None:
    total: Counter[str] = Counter()
    missing: list[str] = []
    for seed in SEEDS:
        total.update(happened(run(seed)))
        missing = [what for what, times in total.items() if not times]
        if not missing:
            return
    assert missing == []
