"""What can go wrong for an application."""

from __future__ import annotations

from weft.errors import PeerError


class NoAnswer(PeerError):
    """Nobody answered a Hello. The node goes on greeting; this one call waits no longer."""
