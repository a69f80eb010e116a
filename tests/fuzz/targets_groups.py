"""Fuzz target of the talk about groups: the key of an event up to the first line feed, then its payload."""

from __future__ import annotations

from weft.core.groups import BadGroupEvent
from weft.core.groups.events import (
    DropSaid,
    LedgerSaid,
    NodeSaid,
    PlaceSaid,
    PolicySaid,
    WithdrawalSaid,
    drop_event,
    ledger_event,
    node_event,
    place_event,
    policy_event,
    read_untrusted,
    withdrawal,
)
from weft.model import Event
from weft.routing import finished


def read(data: bytes) -> None:
    key, _, payload = data.partition(b"\n")
    try:
        said = read_untrusted(Event(payload, 0, key))
    except BadGroupEvent:
        return
    match said:
        case NodeSaid():
            again = finished(node_event(*said))
        case PlaceSaid():
            again = place_event(*said)
        case LedgerSaid():
            again = ledger_event(*said)
        case PolicySaid(policy):
            again = policy_event(policy)
        case DropSaid(era):
            again = drop_event(era)
        case WithdrawalSaid(what):
            again = withdrawal(what)
    assert read_untrusted(again) == said


TARGETS = {"groups-event": read}
SEEDS = {
    "groups-event": [
        b'n:node-a\n{"billing-1":{"pattern":"plant.>","turn":1,"held":["plant.t@node-b/0:e7"]},'
        b'"node-a#12":{"pattern":"*.t","turn":9,"held":[]}}',
        b"n:node-a\n{}",
        b"p:plant.t@node-b/0:e7\n2:1234",
        b"p:plant.t@node-b/0:e7\n2:1234:1",
        b'n:node-a\n{"m":{"pattern":"plant.>","turn":1,"held":[],"owner":"0123456789abcdef","era":1}}',
        b"n:node-a\n",
        b"d:\n1",
        b'l:plant.t@node-b/0:e7\n{"version":2,"done":[[9,12]],"tries":[[7,8,1,5,false,"no"]],"era":1}',
        b's:\n{"version":1,"max_deliveries":5,"retry_s":[1.0,60.0],"in_order":true,"era":1}',
        b"l:plant.t@node-b/0:e7\n",
    ]
}
