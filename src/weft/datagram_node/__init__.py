"""What nodes of both datagram protocols have in common, whatever their packets look like. Pure.

- ``relationships``  the neighbours: a limit, preference, silence, and what is kept to find them again
- ``seeking``        addresses that are asked for a relationship until they answer
- ``pace``           both clocks in one value; how fast datagrams leave, and what congestion does to that

``weft.emm_compact`` builds its session from these. They know node ids, addresses and times, and no bytes.
"""

from weft.datagram_node.pace import Instant, Pace
from weft.datagram_node.relationships import Admission, Change, ChangeKind, Relationship, Relationships
from weft.datagram_node.seeking import Seeking

__all__ = [
    "Admission",
    "Change",
    "ChangeKind",
    "Instant",
    "Pace",
    "Relationship",
    "Relationships",
    "Seeking",
]
