"""Saying hello on a stream: first the dialler, then the other side (PL-05). And what hellos say about lives: our own
life, a peer's, and two lives with one id (SEC-07)."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from weft.errors import PeerError
from weft.limits import PEER_FEATURES_MAX, PEER_NAME_CHARS_MAX
from weft.model import NodeId
from weft.security.notary import Notary
from weft.transport.peers.byte_streams import ByteStream
from weft.transport.peers.gate import Proof
from weft.transport.peers.lives import PeerLives
from weft.transport.peers.watching import LinkListener, LinkObserver
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.features import Hello, OwnId, read_hello_untrusted
from weft.wire.mesh.frames import read_peer_message_untrusted
from weft.wire.mesh.lives import Heard, OtherLife, statement
from weft.wire.mesh.peerlink_pb2 import PeerMessage

# Names of features and addresses in UTF-8, with room for everything else.
HELLO_BYTES_MAX: Final = 8 * PEER_FEATURES_MAX * PEER_NAME_CHARS_MAX


class TooSlow(PeerError):
    """The peer did not answer in time."""


async def write_hello(stream: ByteStream, ours: Hello) -> None:
    await stream.write(PeerMessage(handshake=ours.to_message()).SerializeToString())


async def read_hello(stream: ByteStream, ours: Hello, mesh: str) -> Hello:
    """Read the peer's hello, and check that we can work together; raise BadMeshMessage or LinkBroken."""
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


class Introductions:
    """``hello`` is what we say about ourselves now; ``now_s`` is a monotonic clock."""

    def __init__(
        self,
        hello: Callable[[], Hello],
        mesh: str,
        notary: Notary,
        listener: LinkListener,
        observer: LinkObserver,
        now_s: Callable[[], float],
    ) -> None:
        self._hello = hello
        self._mesh = mesh
        self._notary = notary
        self._listener = listener
        self._observer = observer
        self._now_s = now_s
        self.lives = PeerLives()

    def to(self, peer: NodeId | None, theirs: Hello | None) -> Hello:
        """Our hello to a peer. It also tells the peer about another node with the peer's id, and answers what the peer
        said about another node with our id."""
        ours = self._hello()
        life, told = (None, None) if theirs is None else (theirs.life, theirs.other)
        other = None if peer is None else self.lives.other_than(peer, life, self._now_s())
        return replace(ours, other=other, heard=self._heard(ours, told))

    def _heard(self, ours: Hello, told: OtherLife | None) -> Heard | None:
        if told is None or ours.life is None or told.life.run == ours.life.run:
            return None
        signed = self._notary.sign(statement(self._mesh, ours.node_id, ours.life, told.life.run))
        return Heard(told.life.run, signed)

    def hear(self, theirs: Hello, proof: Proof | None, address: str) -> None:
        """A peer said hello; raise CertificateRefused if it is not the node that it names."""
        if proof is not None:
            proof.check(theirs, self._mesh)
        if theirs.life is not None and self.lives.hear(theirs.node_id, theirs.life, theirs.heard, self._now_s()):
            self._observer.twins_seen(theirs.node_id, address)
        ours, told = self._hello(), theirs.other
        if ours.life is None or told is None or told.heard is None or told.life.run == ours.life.run:
            return
        said = statement(self._mesh, ours.node_id, told.life, ours.life.run)
        aware = told.heard.run == ours.life.run
        if aware and self._notary.is_signed_untrusted(ours.node_id, said, told.heard.signature):
            self._listener.twin_found(told.life, theirs.node_id)

    def meet(self, ourselves: OwnId, proof: Proof | None, address: str) -> bool:
        """Somebody said hello with our own id. Return True if it is another life, and False if we dialled ourselves."""
        theirs, ours = ourselves.hello, self._hello()
        if proof is not None:
            proof.check(theirs, self._mesh)
        if theirs.life is None or ours.life is None or theirs.life.run == ours.life.run:
            return False
        self._listener.twin_found(theirs.life, address)
        return True
