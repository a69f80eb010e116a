"""An established SECIO connection: plaintext in, frames out, and back.

A frame is ``length:u32 ciphertext mac``: AES in counter mode over everything ever sent in this direction, and an HMAC
over the frame's ciphertext. The MAC covers no counter, so a frame that an attacker repeats, drops or moves passes it,
but is decrypted at the wrong position of the key stream and comes out as noise, which the layer above refuses.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from weft.limits import MIB
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.framing import U32Frames, u32_prefixed
from weft.wire.libp2p.secio.suite import HASHLIB_NAMES, MAC_BYTES, HashName, Keys

SECIO_FRAME_BYTES_MAX: Final = 8 * MIB  # SECIO's own bound; decided on the length alone
SECIO_SEND_BYTES_MAX: Final = 1 * MIB  # plaintext put into one frame: the receiver keeps a whole frame before its MAC


class SecureChannel:
    """Two directions, each with its own keys. After BadFrame the channel is dead: every later call raises it again."""

    def __init__(self, hash_name: HashName, outgoing: Keys, incoming: Keys) -> None:
        self._hash = HASHLIB_NAMES[hash_name]
        self._mac_bytes = MAC_BYTES[hash_name]
        self._outgoing_mac_key = outgoing.mac_key
        self._incoming_mac_key = incoming.mac_key
        self._encryptor = Cipher(algorithms.AES(outgoing.cipher_key), modes.CTR(outgoing.iv)).encryptor()
        self._decryptor = Cipher(algorithms.AES(incoming.cipher_key), modes.CTR(incoming.iv)).decryptor()
        self._frames = U32Frames()
        self._broken: BadFrame | None = None

    def send(self, data: bytes) -> bytes:
        """``data`` as frames for the wire."""
        return b"".join(
            self._seal(data[at : at + SECIO_SEND_BYTES_MAX]) for at in range(0, len(data), SECIO_SEND_BYTES_MAX)
        )

    def receive_data(self, data: bytes) -> list[bytes]:
        """The plaintext of every frame that is complete by now; raise only BadFrame."""
        return list(self.plaintexts(data))

    def plaintexts(self, data: bytes) -> Iterator[bytes]:
        """The same one by one. Take them all before the next data comes."""
        if self._broken is not None:
            raise self._broken
        self._frames.feed(data)
        try:
            while (frame := self._frames.next_frame_untrusted(SECIO_FRAME_BYTES_MAX)) is not None:
                yield self._open_untrusted(frame)
        except BadFrame as error:
            self._broken = error
            raise

    def _seal(self, plaintext: bytes) -> bytes:
        ciphertext = self._encryptor.update(plaintext)
        return u32_prefixed(ciphertext + hmac.digest(self._outgoing_mac_key, ciphertext, self._hash))

    def _open_untrusted(self, frame: bytes) -> bytes:
        if len(frame) < self._mac_bytes:
            raise BadFrame("frame is shorter than its MAC", need=self._mac_bytes, have=len(frame))
        ciphertext, mac = frame[: -self._mac_bytes], frame[-self._mac_bytes :]
        if not hmac.compare_digest(mac, hmac.digest(self._incoming_mac_key, ciphertext, self._hash)):
            raise BadFrame("frame was tampered with: its MAC does not fit", have=len(frame))
        return self._decryptor.update(ciphertext)
