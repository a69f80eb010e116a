"""From a TCP connection to a libp2p connection: who is there, encrypted, with streams. Bytes in, bytes out.

SECIO and MPLEX are what Coaty prescribes (COA-01). Others would be put beside them in the two tables below, and be
proposed before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.wire.libp2p import mplex, secio
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import PublicKey
from weft.wire.libp2p.mplex import Mplex
from weft.wire.libp2p.multistream import Dialler, Listener, Refused, Selected
from weft.wire.libp2p.peer_id import PeerId
from weft.wire.libp2p.private_keys import PrivateKey
from weft.wire.libp2p.secio import Handshake, SecureChannel, Secured

Entropy = Callable[[int], bytes]

SECURITY: Final[Mapping[str, Callable[[PrivateKey, PeerId | None, Entropy], Handshake]]] = {secio.PROTOCOL: Handshake}
MUXERS: Final[Mapping[str, Callable[[], Mplex]]] = {mplex.PROTOCOL: Mplex}


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The connection stands; ``rest`` is plaintext that came along and is for the muxer."""

    channel: SecureChannel
    remote: PublicKey
    muxer: Mplex
    rest: bytes


class Upgrade:
    """One side of it. ``expected`` is the peer that was dialled; None: the other side dialled us."""

    def __init__(self, identity: PrivateKey, expected: PeerId | None, entropy: Entropy) -> None:
        self._identity = identity
        self._expected = expected
        self._entropy = entropy
        self._out = bytearray()
        self._take: Callable[[bytes], Upgraded | None] = self._take_security
        self._negotiator = self._negotiate(SECURITY)
        self._out += self._negotiator.data_to_send()

    def data_to_send(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> Upgraded | None:
        """The outcome, or None while more bytes are needed; raise only BadFrame."""
        return self._take(data)

    def _negotiate(self, protocols: Mapping[str, object]) -> Dialler | Listener:
        return Listener(tuple(protocols)) if self._expected is None else Dialler(tuple(protocols))

    def _take_security(self, data: bytes) -> Upgraded | None:
        outcome = self._negotiator.receive_data(data)
        self._out += self._negotiator.data_to_send()
        if outcome is None:
            return None
        selected = _selected(outcome)
        self._handshake = SECURITY[selected.protocol](self._identity, self._expected, self._entropy)
        self._take = self._take_handshake
        return self._take_handshake(selected.rest)

    def _take_handshake(self, data: bytes) -> Upgraded | None:
        secured = self._handshake.receive_data(data)
        self._out += self._handshake.data_to_send()
        if secured is None:
            return None
        self._secured: Secured = secured
        self._negotiator = self._negotiate(MUXERS)
        self._out += secured.channel.send(self._negotiator.data_to_send())
        self._take = self._take_muxer
        return self._take_plaintext(b"".join(secured.received))

    def _take_muxer(self, data: bytes) -> Upgraded | None:
        return self._take_plaintext(b"".join(self._secured.channel.receive_data(data)))

    def _take_plaintext(self, data: bytes) -> Upgraded | None:
        outcome = self._negotiator.receive_data(data)
        self._out += self._secured.channel.send(self._negotiator.data_to_send())
        if outcome is None:
            return None
        selected = _selected(outcome)
        return Upgraded(self._secured.channel, self._secured.remote, MUXERS[selected.protocol](), selected.rest)


def _selected(outcome: Selected | Refused) -> Selected:
    if isinstance(outcome, Refused):
        raise BadFrame("peer speaks none of the protocols we propose", proposed=", ".join(outcome.proposals))
    return outcome
