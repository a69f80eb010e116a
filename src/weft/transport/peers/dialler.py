"""An address that is dialled, and the ways in which links end without anybody's fault."""

from __future__ import annotations

import asyncio

from weft.errors import PeerError
from weft.model import NodeId
from weft.security import CertificateRefused
from weft.transport.backoff import Backoff
from weft.transport.peers.byte_streams import LinkBroken
from weft.transport.peers.introducing import TooSlow
from weft.transport.peers.link import PeerConnection
from weft.wire.rpc import StatusCode


class DuplicateLink(PeerError):
    """There is a better connection between the two nodes."""


class TwinRefused(PeerError):
    """Two nodes run with the id of this peer, and the older one has the link."""


class ClosedHere(PeerError):
    """This node does not want the link, or not now."""


class Dialler:
    """An address that is to have a link, and the node that was found there."""

    def __init__(self, address: str, backoff: Backoff) -> None:
        self.address = address
        self.backoff = backoff
        self.node_id: NodeId | None = None
        self.unlinked = asyncio.Event()  # the link to that node may be gone
        self.trouble = ""
        self.link: PeerConnection | None = None  # set when both of its streams are open
        self.task: asyncio.Task[None] | None = None
        self.replacing: asyncio.Task[None] | None = None  # dials a second link, which replaces the first one


def status_of(error: PeerError) -> StatusCode:
    """The status for a peer that dialled us."""
    match error:
        case DuplicateLink() | TwinRefused():
            return StatusCode.ALREADY_EXISTS
        case CertificateRefused():
            return StatusCode.UNAUTHENTICATED
        case TooSlow():
            return StatusCode.DEADLINE_EXCEEDED
        case ClosedHere() | LinkBroken():
            return StatusCode.UNAVAILABLE
        case _:
            return StatusCode.INVALID_ARGUMENT
