"""The one error of this room."""

from __future__ import annotations

from weft.errors import PeerError


class BadFrame(PeerError):
    """Bytes of a libp2p peer that are malformed, too large, forged or out of turn: the connection is not worth keeping.

    ``at`` (where given) is the offset of the offending byte in the message that was read.
    """
