"""Groups of subscribers: members anywhere in the mesh share streams, and each stream belongs to one member at a time.

There is no coordinator. Every node publishes what it knows of a group (its members, the streams they hold, the group's
positions) as events on the topic ``weft.groups.<group>``, which the mesh brings to every node (``events``). From what
it has heard, every node computes the same owner for every stream (``owners``). If one of its members should get a
stream, the node waits until nobody else holds the stream, and announces that it wants it. It listens for ``settle_s``
in case another node wants the stream at the same moment, makes sure that it is up to date with the others
(``hearing``), and then serves the stream. If a node has a stream that now belongs to another member, it asks its own
member to release it and waits for the answer. Then it announces the group's position, and after that announces that it
no longer holds the stream.

What is promised:

- A stream has at most one member at a time, as long as all nodes hear each other within ``settle_s / 2``, no living
  node is taken for dead, and members release streams within ``release_timeout_s``.
- If that does not hold (the mesh is split, or a node has just started and has not heard of the others yet), events may
  go to two members. When the nodes hear each other again, one of the two members releases the stream.
- Nothing is skipped. Apart from the above, events come twice only if they were handled in the last
  ``publish_interval_s`` before a node died, or if somebody moved the group back.

>>> from weft.model import NodeId, Pattern, Stream, Topic, Epoch
>>> groups = Groups(NodeId("a"), GroupSettings(), positions=lambda group: [])
>>> groups.stream_known((Stream(Topic("plant.t"), NodeId("a"), 0), Epoch(1)), now_s=0.0)
[]
>>> groups.join(7, "billing", "b1", Pattern("plant.>"), now_s=0.0)
[]
>>> assignment, say = groups.tick(now_s=0.0)
>>> assignment.subscription, assignment.generation, [str(stream) for stream, epoch in assignment.streams]
(7, 1, ['plant.t@a/0'])

- ``names``    what groups and members may be called
- ``events``   what nodes tell each other, and how hostile events are read
- ``owners``   which member should have which stream
- ``reports``  what other nodes said about their members
- ``places``   the group's positions: versions and offsets
- ``ledger``   what is done and what failed after the position, in one stream
- ``hand``     what a member has received and not settled yet, and what it gets next
- ``members``  a member here, and its holds
- ``hearing``  whether this node is up to date with what others say
- ``settling`` acknowledging by hand: retries, dead letters
- ``group``    one group: decisions
- ``groups``   all groups, for the broker; ``effects`` and ``settings``: what comes out, and the knobs
"""

from weft.core.groups.effects import (
    Assignment,
    CommitPositions,
    Dropped,
    ForgetPositions,
    GroupEffect,
    PutAside,
    Refusal,
    Replaced,
    Say,
    Wake,
)
from weft.core.groups.events import BadGroupEvent
from weft.core.groups.groups import Groups, Statement
from weft.core.groups.names import parse_group, parse_member
from weft.core.groups.owners import GroupMember
from weft.core.groups.settings import GroupSettings

__all__ = [
    "Assignment",
    "BadGroupEvent",
    "CommitPositions",
    "Dropped",
    "ForgetPositions",
    "GroupEffect",
    "GroupMember",
    "GroupSettings",
    "Groups",
    "PutAside",
    "Refusal",
    "Replaced",
    "Say",
    "Statement",
    "Wake",
    "parse_group",
    "parse_member",
]
