"""UDP: sockets that take datagrams in lists and read and set TTL, DSCP and ECN for each.

    udp = await UdpSocket.bind("127.0.0.1", 0, on_datagrams)    # on_datagrams(Sequence[Datagram]), many per wake-up
    udp.send(data, target, ttl=64, tos=0x62, urgent=True)       # at once, or from a bounded queue, urgent first

- ``datagram``      the values: a datagram that arrived or is to be sent, with its marks
- ``marks``         TTL and TOS as control messages of IPv4 and IPv6
- ``bulk``          many datagrams for one call of the system
- ``urgent_first``  the queue for what waits when the socket takes no more
- ``udp_socket``    the thin layer of asyncio around them

Protocols know nothing of it and it knows nothing of them: their sessions take and give bytes, addresses and marks.
"""

from weft.transport.udp.datagram import Address, Datagram, Outgoing, Received, show
from weft.transport.udp.udp_socket import Figures, OnDatagrams, UdpSocket
from weft.transport.udp.urgent_first import UrgentFirst

__all__ = ["Address", "Datagram", "Figures", "OnDatagrams", "Outgoing", "Received", "UdpSocket", "UrgentFirst", "show"]
