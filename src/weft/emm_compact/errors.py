"""What can go wrong with other nodes."""

from __future__ import annotations

from weft.errors import PeerError


class NoAnswer(PeerError):
    """A node did not answer in time: it is not there, does not know our key, or has no room for us."""
