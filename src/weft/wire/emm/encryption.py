"""Encryption metadata, field 0x11: which algorithm, which IV or nonce, which key (EMM-22, EMM-23)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import UsageError
from weft.wire import tlv
from weft.wire.emm.fields import Algorithm, Field, Sub
from weft.wire.emm.packet import Packet
from weft.wire.reject import BadPacket, Reject

IV_BYTES = 12  # both algorithms; AES-GCM calls it IV, ChaCha20-Poly1305 nonce
KEY_ID_BYTES = 16
_SIZES = {Sub.ALGORITHM: 1, Sub.IV_LENGTH: 1, Sub.NONCE: 12, Sub.KEY_ID: KEY_ID_BYTES}


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a packet was encrypted. ``iv`` is the IV of AES-GCM or the nonce of ChaCha20-Poly1305."""

    algorithm: Algorithm
    iv: bytes
    key_id: bytes | None = None

    def __post_init__(self) -> None:
        if len(self.iv) != IV_BYTES:
            raise UsageError("the IV has the wrong size", need=IV_BYTES, have=len(self.iv))
        if self.key_id is not None and len(self.key_id) != KEY_ID_BYTES:
            raise UsageError("the key id has the wrong size", need=KEY_ID_BYTES, have=len(self.key_id))

    def encode(self) -> bytes:
        """The value of field 0x11, sub-fields ascending."""
        subs = [(Sub.ALGORITHM, bytes((self.algorithm,)))]
        match self.algorithm:
            case Algorithm.AES_256_GCM:
                subs += [(Sub.IV_LENGTH, bytes((len(self.iv),))), (Sub.IV, self.iv)]
            case Algorithm.CHACHA20_POLY1305:
                subs += [(Sub.NONCE, self.iv)]
        if self.key_id is not None:
            subs += [(Sub.KEY_ID, self.key_id)]
        return b"".join(tlv.encode(kind, value) for kind, value in subs)


def read_encryption_untrusted(packet: Packet, subs_max: int) -> Encryption:
    """What field 0x11 of ``packet`` says; raise only BadPacket. ``subs_max``: what the packet's TLV limit leaves."""
    base = next(at for at in packet.offsets if packet.raw[at] == Field.ENCRYPTION) + tlv.HEAD_BYTES
    end = base + len(packet.fields[Field.ENCRYPTION])
    subs: dict[int, bytes] = {}
    for kind, value, at in tlv.read_untrusted(packet.raw, base, end, subs_max):
        if kind in subs:
            raise BadPacket(Reject.TLV_DUPLICATE, "encryption sub-field occurs twice", at=at, type=hex(kind))
        need = _SIZES.get(kind, len(value))  # type: ignore[call-overload]
        if len(value) != need:
            raise BadPacket(
                Reject.TLV_SIZE, "encryption sub-field has the wrong size", at=at, need=need, have=len(value)
            )
        subs[kind] = value
    return _interpret_untrusted(subs, base)


def _interpret_untrusted(subs: dict[int, bytes], at: int) -> Encryption:
    if Sub.ALGORITHM not in subs:
        raise BadPacket(Reject.ENCRYPTION, "encryption metadata names no algorithm", at=at)
    if (Sub.IV in subs) == (Sub.NONCE in subs):
        raise BadPacket(Reject.ENCRYPTION, "encryption metadata needs exactly one of IV and nonce", at=at)
    if Sub.IV_LENGTH in subs:
        said = subs[Sub.IV_LENGTH][0]  # its top bit is reserved: 128 and more cannot equal a length that fits
        if said != len(subs.get(Sub.IV, b"")):
            raise BadPacket(
                Reject.ENCRYPTION, "IV length differs from the IV", at=at, said=said, have=len(subs.get(Sub.IV, b""))
            )
    try:
        algorithm = Algorithm(subs[Sub.ALGORITHM][0])
    except ValueError:
        raise BadPacket(Reject.ENCRYPTION, "unknown algorithm", at=at, algorithm=subs[Sub.ALGORITHM][0]) from None
    wanted = Sub.IV if algorithm is Algorithm.AES_256_GCM else Sub.NONCE
    if wanted not in subs:
        raise BadPacket(Reject.ENCRYPTION, f"{algorithm.name} takes its {wanted.name}, not the other field", at=at)
    if len(subs[wanted]) != IV_BYTES:
        raise BadPacket(Reject.ENCRYPTION, "IV has the wrong size", at=at, need=IV_BYTES, have=len(subs[wanted]))
    return Encryption(algorithm, subs[wanted], subs.get(Sub.KEY_ID))
