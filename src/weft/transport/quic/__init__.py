"""QUIC for datagram protocols: one packet per DATAGRAM frame (RFC 9221), ALPN ``emp/1`` (EMM-28).

    links = QuicLinks(on_datagrams)                              # on_datagrams(Sequence[Datagram]), as UdpSocket has it
    address = await links.listen("127.0.0.1", 0, credentials)    # for others to connect
    target = await links.connect("node-b", 7443, root_pem)       # the certificate is checked against the mesh's root
    links.send(data, target)

QUIC keeps packets secret and tells the client whom it talks to. Who made a packet is, as over UDP, told by the packet:
servers do not ask for certificates of clients (aioquic cannot), so nothing is believed for having come this way.

- ``addresses``      addresses of connections, told apart from those of UDP
- ``configuration``  what both sides insist on
- ``connection``     one connection: frames in, frames out, bounded
- ``links``          all connections of one owner
"""

from weft.transport.quic.addresses import is_quic, quic_address, show_any
from weft.transport.quic.configuration import ALPN
from weft.transport.quic.links import QuicLinks

__all__ = ["ALPN", "QuicLinks", "is_quic", "quic_address", "show_any"]
