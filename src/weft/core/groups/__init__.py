"""Groups of subscribers: members anywhere in the mesh share streams, and each stream has one of them at a time.

There is no coordinator. Every node tells what concerns a group as events on the topic ``weft.groups.<group>``, which
the mesh brings to every node: who its members are, what they hold, where the group stands (``events``). From what it
heard, every node computes the same owner for every stream (``owners``). A node that finds itself with a member that
should have a stream waits until nobody else holds it, says that it wants it, listens for ``settle_s`` whether somebody
else wanted it at the same moment, makes sure that it is up to date with the others (``hearing``), and serves it. A node
that finds itself with a stream that is somebody else's by now asks its member to let go, waits for the answer, says
where the group stands, and then that it holds the stream no more.

What is promised:

- A stream has at most one member at a time, as long as whatever a node says is heard by all others within
  ``settle_s / 2``, living nodes are not called dead, and members let go within ``release_timeout_s``.
- If that does not hold (a partition, say, or a node that has just started and not heard of the others yet), events may
  go to two members. When the nodes hear each other again, one of the two lets go.
- Nothing is skipped. Beside the above, nothing comes twice, except what was handled in the last ``publish_interval_s``
  before a node died, and what somebody moved the group back over.

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
- ``reports``  what other nodes said of their members
- ``places``   where the group stands: versions and offsets
- ``ledger``   what is done and what failed, beyond the position, in one stream
- ``hand``     what a member has been given and not settled, and what it is given next
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
