"""SECIO 1.0.0, libp2p's older way to encrypt a connection, and the one that Coaty prescribes (COA-01).

``Handshake`` turns an insecure connection into ``Secured``; its ``channel`` encrypts and decrypts from then on. Another
security protocol (Noise) would stand beside this package, with a handshake that ends in the same two things: who the
remote peer is, and a channel with ``send`` and ``receive_data``.
"""

from weft.wire.libp2p.secio.channel import SecureChannel
from weft.wire.libp2p.secio.handshake import PROTOCOL, Handshake, Secured
from weft.wire.libp2p.secio.suite import CipherName, Exchange, HashName, Offer, Suite

__all__ = [
    "PROTOCOL",
    "CipherName",
    "Exchange",
    "Handshake",
    "HashName",
    "Offer",
    "SecureChannel",
    "Secured",
    "Suite",
]
