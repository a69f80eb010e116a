"""What a node may have to say to a client that is neither the log's nor the client's fault."""

from __future__ import annotations

from weft.errors import UsageError, WeftError


class CopiesMissing(WeftError):
    """The events are kept here, but not on as many nodes as were asked for."""


class TopicReserved(UsageError):
    """Topics below ``weft.`` are the mesh's own."""


class GroupDropped(UsageError):
    """Somebody has dropped the group; whoever joins it again begins anew."""


class MemberTaken(UsageError):
    """A group has a member of this name that belongs to somebody else."""
