"""Addresses as text, as events carry them, and back, as sockets take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final

from weft.gateway.emm.rows import Arrived
from weft.transport.quic import show_any
from weft.wire.udp import Address

GATEWAY_EMM_SOURCES_MAX: Final = 10_000  # senders with valid signatures lately; the oldest go first


new_tuple: Final = tuple.__new__


class Sources:
    """Remembers both ways; an address that was silent for long may be forgotten."""

    def __init__(self, sources_max: int = GATEWAY_EMM_SOURCES_MAX) -> None:
        self._sources_max = sources_max
        self._texts: dict[Address, str] = {}
        self._addresses: dict[str, Address] = {}

    def arrived(
        self, contents: Sequence[bytes], sources: Sequence[Address], ttls: Sequence[int], toses: Sequence[int]
    ) -> list[Arrived]:
        known = self._texts
        texts = [known.get(source) or self._text(source) for source in sources]
        # Without the named constructor, which takes three times as long.
        return list(map(new_tuple, repeat(Arrived), zip(contents, texts, ttls, toses, strict=True)))

    def address(self, text: str) -> Address | None:
        return self._addresses.get(text)

    def _text(self, address: Address) -> str:
        if len(self._texts) >= self._sources_max:  # all at once: looking at each would cost more than it saves
            self._texts.clear()
            self._addresses.clear()
        text = self._texts[address] = show_any(address)
        self._addresses[text] = address
        return text
