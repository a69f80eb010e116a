"""Saying hello on a stream: the dialler first, then the other (PL-05)."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from weft.errors import PeerError
from weft.limits import PEER_FEATURES_MAX, PEER_NAME_CHARS_MAX
from weft.transport.peers.byte_streams import ByteStream
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.features import Hello, read_hello_untrusted
from weft.wire.mesh.frames import read_peer_message_untrusted
from weft.wire.mesh.peerlink_pb2 import PeerMessage

# Names of features and addresses in UTF-8, with room for everything else.
HELLO_BYTES_MAX: Final = 8 * PEER_FEATURES_MAX * PEER_NAME_CHARS_MAX


class TooSlow(PeerError):
    """The peer did not answer in time."""


async def write_hello(stream: ByteStream, ours: Hello) -> None:
    await stream.write(PeerMessage(handshake=ours.to_message()).SerializeToString())


async def read_hello(stream: ByteStream, ours: Hello, mesh: str) -> Hello:
    """Read who is there, if we can work together; raise BadMeshMessage or LinkBroken."""
    message = read_peer_message_untrusted(await stream.read(), HELLO_BYTES_MAX)
    if message.WhichOneof("msg") != "handshake":
        raise BadMeshMessage("the first message is not a handshake", kind=message.WhichOneof("msg"))
    return read_hello_untrusted(message.handshake, ours.node_id, mesh)


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise TooSlow if it takes longer."""
    try:
        async with timeout(seconds):
            yield
    except TimeoutError:
        raise TooSlow(f"{what} took too long", limit_s=seconds) from None
