"""Finding peers by multicast DNS, on the chosen interfaces only.

Each interface has its own socket, which joins the group there, sends there, and receives only what came in there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

from weft.errors import UsageError
from weft.limits import LIBP2P_DISCOVERY_S, MDNS_PACKET_BYTES_MAX
from weft.wire.libp2p import dns, mdns
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.mdns import Found
from weft.wire.libp2p.peer_id import PeerId

MDNS_ANSWER_INTERVAL_S: Final = 1.0  # RFC 6762, 6: not the same records more often
TTL: Final = 255  # RFC 6762, 11
IP_MULTICAST_ALL: Final = getattr(socket, "IP_MULTICAST_ALL", 49)  # Linux; Python names it from 3.12 on


class Mdns:
    """Asks every few seconds who is there, answers others, and reports peers that announce themselves."""

    def __init__(
        self,
        namespace: str,
        peer: PeerId,
        port: int,
        interfaces: Sequence[ipaddress.IPv4Address],
        on_found: Callable[[Found], None],
    ) -> None:
        """``interfaces`` are given by their addresses, which are also announced. UsageError if the namespace is too
        long for a DNS name."""
        if not interfaces:
            raise UsageError("mDNS needs at least one interface, by its address")
        self._namespace = namespace
        self._peer = peer
        self._interfaces = tuple(interfaces)
        self._on_found = on_found
        self._query = mdns.query(namespace)
        self._answer = mdns.answer(namespace, peer, port, list(interfaces), f"{peer}.local"[-60:])
        self._transports: list[asyncio.DatagramTransport] = []
        self._asking: asyncio.Task[None] | None = None
        self._answered_s = float("-inf")

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            for interface in self._interfaces:
                sock = _multicast_socket(interface)
                transport, _ = await loop.create_datagram_endpoint(lambda: _Listener(self._received), sock=sock)
                self._transports.append(transport)
        except OSError as error:
            await self.close()
            raise UsageError(f"cannot use mDNS on {interface}: {error.strerror or error}") from None
        self._asking = loop.create_task(self._ask(), name="mdns")

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        for transport in self._transports:
            transport.close()
        self._transports.clear()

    async def _ask(self) -> None:
        while True:
            self._send(self._query)
            await asyncio.sleep(LIBP2P_DISCOVERY_S)

    def _send(self, packet: bytes) -> None:
        for transport in self._transports:
            transport.sendto(packet, (mdns.GROUP, mdns.PORT))

    def _received(self, data: bytes) -> None:
        """Take any packet; packets of others about other things are normal."""
        if len(data) > MDNS_PACKET_BYTES_MAX:
            return
        try:
            packet = dns.decode_untrusted(data)
            found = mdns.found_untrusted(packet, self._namespace)
        except BadFrame:
            return
        if mdns.asks_for(packet, self._namespace):
            now_s = asyncio.get_running_loop().time()
            if now_s - self._answered_s >= MDNS_ANSWER_INTERVAL_S:
                self._answered_s = now_s
                self._send(self._answer)
        for one in found:
            if one.peer != self._peer:
                self._on_found(one)


class _Listener(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._received(data)

    def error_received(self, exc: Exception) -> None:
        pass  # the interface is down at the moment; the next query tries again


def _multicast_socket(interface: ipaddress.IPv4Address) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface.packed)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, TTL)
        sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        membership = struct.pack("4s4s", socket.inet_aton(mdns.GROUP), interface.packed)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        sock.bind((mdns.GROUP, mdns.PORT))  # the group's address, so nothing that was sent to us alone
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
