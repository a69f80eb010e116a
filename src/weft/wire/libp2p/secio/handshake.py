"""The SECIO 1.0.0 handshake: who is there, which algorithms, fresh keys signed by both, and a proof that they work.

Both sides do the same, at the same time: Propose, Exchange, and each sends back the other's nonce, encrypted.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from weft.errors import UsageError
from weft.limits import KIB
from weft.wire.libp2p import keys, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import U32Frames, u32_prefixed
from weft.wire.libp2p.keys import PUBLIC_KEY_BYTES_MAX, SIGNATURE_BYTES_MAX, PublicKey
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey
from weft.wire.libp2p.secio import suite
from weft.wire.libp2p.secio.channel import SecureChannel
from weft.wire.libp2p.secio.suite import Offer, Suite

SECIO_HANDSHAKE_BYTES_MAX: Final = 16 * KIB  # the largest honest message (RSA, 8192 bits) is a tenth of it
PROTOCOL = "/secio/1.0.0"
NONCE_BYTES = 16
NAMES_BYTES_MAX = 256  # of a list of algorithms; ours takes 17
POINT_BYTES_MAX = 133  # an uncompressed point of P-521
ALL_ALGORITHMS = Offer()

# message Propose { rand = 1; pubkey = 2; exchanges = 3; ciphers = 4; hashes = 5 }
RAND, PUBKEY, EXCHANGES, CIPHERS, HASHES = range(1, 6)
# message Exchange { epubkey = 1; signature = 2 }
EPUBKEY, SIGNATURE = range(1, 3)


class State(Enum):
    PROPOSING = auto()  # our proposal is out, theirs is awaited
    EXCHANGING = auto()  # the suite is settled, our ephemeral key is out, theirs is awaited
    FINISHING = auto()  # both keys are there, their nonce is on its way back, ours is awaited
    ENDED = auto()  # secured, or given up


@dataclass(frozen=True, slots=True)
class Secured:
    """The connection is encrypted, and ``remote`` holds the other end; ``received`` is plaintext that came along."""

    channel: SecureChannel
    remote: PublicKey
    suite: Suite
    received: tuple[bytes, ...]


class Handshake:
    """One side of it.

    ``expected`` is the peer that was dialled; None accepts anybody, as a listener does. ``entropy(n)`` must give n
    fresh unpredictable bytes: first the nonce, then the ephemeral key come from it.
    """

    def __init__(
        self,
        identity: PrivateKey,
        expected: PeerId | None,
        entropy: Callable[[int], bytes],
        offer: Offer = ALL_ALGORITHMS,
    ) -> None:
        self._identity = identity
        self._expected = expected
        self._entropy = entropy
        self._offer = offer
        self._nonce = entropy(NONCE_BYTES)
        self._proposal = protobuf.encode(
            [
                (RAND, self._nonce),
                (PUBKEY, identity.public.serialised),
                (EXCHANGES, ",".join(offer.exchanges)),
                (CIPHERS, ",".join(offer.ciphers)),
                (HASHES, ",".join(offer.hashes)),
            ]
        )
        self._frames = U32Frames()
        self._out = bytearray(u32_prefixed(self._proposal))
        self._state = State.PROPOSING

    def data_to_send(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> Secured | None:
        """The channel once it stands, or None while more bytes are needed; raise only BadFrame."""
        if self._state is State.ENDED:
            raise UsageError("the handshake has ended: these bytes belong to its channel")
        self._frames.feed(data)
        try:
            return self._advance()
        except BadFrame:
            self._state = State.ENDED
            raise

    def _advance(self) -> Secured | None:
        while self._state in (State.PROPOSING, State.EXCHANGING):
            frame = self._frames.next_frame_untrusted(SECIO_HANDSHAKE_BYTES_MAX)
            if frame is None:
                return None
            if self._state is State.PROPOSING:
                self._on_propose_untrusted(frame)
            else:
                self._on_exchange_untrusted(frame)
        return self._finish_untrusted(self._frames.take_rest())

    def _on_propose_untrusted(self, frame: bytes) -> None:
        message = protobuf.read_untrusted("SECIO proposal", frame, (RAND, PUBKEY, EXCHANGES, CIPHERS, HASHES))
        nonce = message.required_blob(RAND, NONCE_BYTES)
        if len(nonce) != NONCE_BYTES:
            raise BadFrame("SECIO nonce has the wrong length", need=NONCE_BYTES, have=len(nonce))
        remote = keys.decode_untrusted(message.required_blob(PUBKEY, PUBLIC_KEY_BYTES_MAX))
        if self._expected is not None and remote.peer != self._expected:
            raise BadFrame("another peer answers", dialled=self._expected, found=remote.peer)
        ours = self._identity.public.serialised
        # The reference compares hashes of keys and nonces, and so notices only a reflection of its own proposal. The
        # same key at the other end is never another peer.
        if remote.serialised == ours:
            raise BadFrame("this node talks to itself", peer=remote.peer)
        self._leads = suite.leads(ours, self._nonce, remote.serialised, nonce)
        self._suite = suite.agree_untrusted(
            self._offer,
            message.required_text(EXCHANGES, NAMES_BYTES_MAX),
            message.required_text(CIPHERS, NAMES_BYTES_MAX),
            message.required_text(HASHES, NAMES_BYTES_MAX),
            we_lead=self._leads,
        )
        self._remote, self._remote_nonce, self._remote_proposal = remote, nonce, frame
        self._ephemeral = suite.ephemeral_key(self._suite.exchange, self._entropy)
        point = suite.public_point(self._ephemeral)
        signature = self._identity.sign(self._proposal + frame + point)
        self._out += u32_prefixed(protobuf.encode([(EPUBKEY, point), (SIGNATURE, signature)]))
        self._state = State.EXCHANGING

    def _on_exchange_untrusted(self, frame: bytes) -> None:
        message = protobuf.read_untrusted("SECIO exchange", frame, (EPUBKEY, SIGNATURE))
        point = message.required_blob(EPUBKEY, POINT_BYTES_MAX)
        signature = message.required_blob(SIGNATURE, SIGNATURE_BYTES_MAX)
        if not self._remote.verifies(self._remote_proposal + self._proposal + point, signature):
            raise BadFrame("the ephemeral key is not signed by the peer it claims to be from", peer=self._remote.peer)
        secret = suite.shared_secret_untrusted(self._suite.exchange, self._ephemeral, point)
        first, second = suite.stretch(self._suite, secret)
        outgoing, incoming = (first, second) if self._leads else (second, first)
        self._channel = SecureChannel(self._suite.hash, outgoing, incoming)
        self._out += self._channel.send(self._remote_nonce)
        self._state = State.FINISHING

    def _finish_untrusted(self, data: bytes) -> Secured | None:
        plaintexts = self._channel.receive_data(data)
        if not plaintexts:
            return None
        nonce, *rest = plaintexts
        if not hmac.compare_digest(nonce, self._nonce):
            raise BadFrame("the peer does not return our nonce", need=NONCE_BYTES, have=len(nonce))
        self._state = State.ENDED
        return Secured(self._channel, self._remote, self._suite, tuple(rest))
