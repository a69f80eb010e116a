"""Fuzz target of the talk about groups: the key of an event up to the first line feed, then its payload."""

from __future__ import annotations

from weft.core.groups import BadGroupEvent
from weft.core.groups.events import NodeSaid, node_event, place_event, read_untrusted
from weft.model import Event


def read(data: bytes) -> None:
    key, _, payload = data.partition(b"\n")
    try:
        said = read_untrusted(Event(payload, 0, key))
    except BadGroupEvent:
        return
    again = node_event(*said) if isinstance(said, NodeSaid) else place_event(*said)
    assert read_untrusted(again) == said


TARGETS = {"groups-event": read}
SEEDS = {
    "groups-event": [
        b'n:node-a\n{"billing-1":{"pattern":"plant.>","turn":1,"held":["plant.t@node-b/0:e7"]},'
        b'"node-a#12":{"pattern":"*.t","turn":9,"held":[]}}',
        b"n:node-a\n{}",
        b"p:plant.t@node-b/0:e7\n2:1234",
    ]
}
