"""Finding other agents and keeping up with them: bootstrap addresses, and mDNS on chosen interfaces (COA-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Final

from weft.errors import PeerError
from weft.limits import LIBP2P_DISCOVERY_S
from weft.transport.libp2p import Host, Mdns
from weft.wire.libp2p import Multiaddr, multiaddr
from weft.wire.libp2p.mdns import Found

COATY_FOUND_MAX: Final = 64  # announced peers dialled at a time


class Neighbourhood:
    """Dials peers that are not connected: bootstrap peers again and again, others when they announce themselves."""

    def __init__(
        self, host: Host, namespace: str, bootstrap: Sequence[Multiaddr], interfaces: Sequence[IPv4Address]
    ) -> None:
        self._host = host
        self._namespace = namespace
        self._bootstrap = tuple(bootstrap)
        self._interfaces = tuple(interfaces)
        self._mdns: Mdns | None = None
        self._dialled: set[Multiaddr] = set()

    async def start(self) -> None:
        for address in self._bootstrap:
            self._host.spawn(self._keep_up(address), f"keep up with {address}")
        if self._interfaces:
            endpoint = self._host.listen_addresses[0].tcp_endpoint
            assert endpoint is not None, "the host listens on TCP"
            self._mdns = Mdns(self._namespace, self._host.peer, endpoint[1], self._interfaces, self._found)
            await self._mdns.start()

    async def close(self) -> None:
        if self._mdns is not None:
            await self._mdns.close()

    async def _keep_up(self, address: Multiaddr) -> None:
        while True:
            with suppress(PeerError):  # not there yet, or no longer
                await self._host.dial(address)
            await asyncio.sleep(LIBP2P_DISCOVERY_S)

    def _found(self, found: Found) -> None:
        if self._host.connections(found.peer):
            return
        for address in found.addresses:
            endpoint = address.tcp_endpoint
            if endpoint is not None:
                self.dial_soon(multiaddr.tcp(*endpoint, found.peer))

    def dial_soon(self, address: Multiaddr) -> None:
        """Once at a time for each address, and never for more than a few: anybody can announce anything."""
        if address not in self._dialled and len(self._dialled) < COATY_FOUND_MAX:
            self._dialled.add(address)
            self._host.spawn(self._dial_found(address), f"dial {address}")

    async def _dial_found(self, address: Multiaddr) -> None:
        try:
            await self._host.dial(address)
        finally:
            self._dialled.discard(address)
