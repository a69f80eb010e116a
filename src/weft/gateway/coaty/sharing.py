"""Several bridges between one mesh and one namespace: each event is brought over by one of them. Pure.

- **Echoes**: what a bridge says in the namespace carries a mark of its mesh in the sequence number of the message,
  which its key signs. A bridge of the same mesh lets such messages lie: they came from the mesh.
- **Twins**: all bridges hear the same events. The one whose id and the event hash highest together brings it over. Who
  the bridges are, they tell each other as all agents do, by advertising themselves, and by last wills.

While a bridge comes or goes, the others may not agree for a moment: an event may then come over twice, or not at all,
as is always possible in Coaty.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

from weft.wire.coaty import CoatyObject, CoreType

BRIDGE_TYPE: Final = "com.weft.Bridge"
MARK_BYTES: Final = 8
CHANCE_BYTES: Final = 8  # as many as the reference's sequence numbers have
NOT_IN_GROUPS: Final = re.compile("[^A-Za-z0-9_-]")
SHOWN_CHARS: Final = 40
BRIDGES_MAX: Final = 1024  # of one namespace; anybody can claim to be one


def mark_of(mesh: str) -> bytes:
    """The same for all nodes of a mesh."""
    return hashlib.sha256(b"weft coaty bridge\0" + mesh.encode()).digest()[:MARK_BYTES]


def marked(mark: bytes, entropy: Callable[[int], bytes]) -> bytes:
    """A new sequence number."""
    return mark + entropy(CHANCE_BYTES)


def is_marked(seqno: bytes, mark: bytes) -> bool:
    return seqno.startswith(mark) and len(seqno) == MARK_BYTES + CHANCE_BYTES


def group_of(namespace: str) -> str:
    """The group of all bridges of a mesh to one namespace. A namespace may have characters that a group's name may not:
    what people can read of it, and a digest that tells it from others."""
    digest = hashlib.sha256(namespace.encode()).hexdigest()[:8]
    return f"coaty-bridge.{NOT_IN_GROUPS.sub('_', namespace)[:SHOWN_CHARS]}-{digest}"


def bridge_object(object_id: str, name: str, mesh: str) -> CoatyObject:
    """How a bridge makes itself known."""
    return {
        "objectId": object_id,
        "objectType": BRIDGE_TYPE,
        "coreType": str(CoreType.COATY_OBJECT),
        "name": name,
        "mesh": mesh,
    }


class Sharing:
    """Which events are this bridge's to bring over."""

    def __init__(self, own_id: str, mesh: str) -> None:
        self._own_id = own_id
        self._mesh = mesh
        self._others: dict[str, None] = {}

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(self._others)

    def advertised(self, advertised: CoatyObject) -> None:
        object_id = str(advertised["objectId"])
        is_bridge = advertised["objectType"] == BRIDGE_TYPE and advertised.get("mesh") == self._mesh
        if is_bridge and object_id != self._own_id and len(self._others) < BRIDGES_MAX:
            self._others[object_id] = None

    def deadvertised(self, object_id: str) -> None:
        self._others.pop(object_id, None)

    def is_ours(self, topic: str, payload: bytes) -> bool:
        """Of all bridges that are known, exactly one says so."""
        if not self._others:
            return True
        event = hashlib.blake2b(topic.encode() + b"\0" + payload, digest_size=16).digest()

        def weight(bridge: str) -> bytes:
            return hashlib.blake2b(bridge.encode() + event, digest_size=16).digest()

        return all(weight(self._own_id) > weight(other) for other in self._others)
