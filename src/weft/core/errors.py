"""Errors that a node tells a client, and that are neither the log's fault nor the client's."""

from __future__ import annotations

from weft.errors import UsageError, WeftError


class CopiesMissing(WeftError):
    """The events are kept here, but not on as many nodes as were asked for."""


class TopicReserved(UsageError):
    """Topics below ``weft.`` belong to the mesh itself."""


class GroupDropped(UsageError):
    """Somebody has dropped the group; a client that joins it again finds it empty."""


class MemberTaken(UsageError):
    """A group has a member of this name that belongs to somebody else."""
