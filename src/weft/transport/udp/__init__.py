"""UDP: sockets that receive datagrams in lists, and read and set TTL, DSCP and ECN for each datagram.

    udp = await UdpSocket.bind("127.0.0.1", 0, on_datagrams)    # on_datagrams(Sequence[Datagram]), many per wake-up
    udp.send(data, target, ttl=64, tos=0x62, urgent=True)       # at once, or from a bounded queue, urgent first

- ``marks``       TTL and TOS as control messages of IPv4 and IPv6
- ``bulk``        many datagrams for one system call
- ``udp_socket``  the thin layer of asyncio around them

The types of values (datagrams, addresses) are in ``weft.wire.udp``. Protocols know nothing about sockets, and sockets
know nothing about protocols: they exchange bytes, addresses and marks.
"""

from weft.transport.udp.udp_socket import Figures, OnDatagrams, UdpSocket

__all__ = ["Figures", "OnDatagrams", "UdpSocket"]
