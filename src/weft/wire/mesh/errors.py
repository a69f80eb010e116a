"""The one error of this room."""

from __future__ import annotations

from weft.errors import PeerError


class BadMeshMessage(PeerError):
    """A frame of a peer or client that is not a message, or a message that cannot be meant."""
