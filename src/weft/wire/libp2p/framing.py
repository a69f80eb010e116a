"""Cuts a byte stream into length-prefixed messages. A length over the limit is refused at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

from weft.wire.libp2p import varint
from weft.wire.libp2p.errors import BadFrame

U32_BYTES = 4


class _Frames(ABC):
    """Bytes received and not yet cut. After BadFrame the stream is lost: the next frame cannot be found."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_frame_untrusted(self, bytes_max: int) -> bytes | None:
        """The next message without its length, or None until all of it is there; raise only BadFrame."""
        head = self._head_untrusted()
        if head is None:
            return None
        length, start = head
        if length > bytes_max:
            raise BadFrame("message is too long", need=length, limit=bytes_max)
        if len(self._buffer) < start + length:
            return None
        frame = bytes(memoryview(self._buffer)[start : start + length])
        del self._buffer[: start + length]
        return frame

    def take_rest(self) -> bytes:
        """What follows the last message cut, for the layer that takes the stream over."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    @abstractmethod
    def _head_untrusted(self) -> tuple[int, int] | None:
        """Length of the message at the front and where it starts; None if the length itself is incomplete."""


class VarintFrames(_Frames):
    """Length as a varint: multistream-select, identify, Floodsub."""

    def _head_untrusted(self) -> tuple[int, int] | None:
        return varint.read_partial_untrusted(self._buffer, 0, len(self._buffer))


class U32Frames(_Frames):
    """Length as four bytes, big-endian: SECIO."""

    def _head_untrusted(self) -> tuple[int, int] | None:
        if len(self._buffer) < U32_BYTES:
            return None
        return int.from_bytes(self._buffer[:U32_BYTES], "big"), U32_BYTES


def u32_prefixed(body: bytes) -> bytes:
    return len(body).to_bytes(U32_BYTES, "big") + body
