"""Addresses as text, which is what events carry, and back, which is what sockets take."""

from __future__ import annotations

from typing import Final

from weft.gateway.emm.rows import Arrived
from weft.limits import GATEWAY_EMM_SOURCES_MAX
from weft.transport.quic import show_any
from weft.transport.udp import Address, Datagram

new_tuple: Final = tuple.__new__


class Sources:
    """Remembers both ways; who has not been heard for long may be forgotten."""

    def __init__(self, sources_max: int = GATEWAY_EMM_SOURCES_MAX) -> None:
        self._sources_max = sources_max
        self._texts: dict[Address, str] = {}
        self._addresses: dict[str, Address] = {}

    def arrived(self, datagrams: list[Datagram]) -> list[Arrived]:
        texts = self._texts
        # Without the named constructor, which takes three times as long.
        return [new_tuple(Arrived, (data, texts.get(source) or self._text(source))) for data, source, _, _ in datagrams]

    def address(self, text: str) -> Address | None:
        return self._addresses.get(text)

    def _text(self, address: Address) -> str:
        if len(self._texts) >= self._sources_max:  # all at once: a look at each would cost more than it saves
            self._texts.clear()
            self._addresses.clear()
        text = self._texts[address] = show_any(address)
        self._addresses[text] = address
        return text
