"""QUIC for datagram protocols: one packet per DATAGRAM frame (RFC 9221), ALPN ``emp/1`` (EMM-28).

    links = QuicLinks(on_datagrams, on_gone)                     # on_datagrams(Sequence[Datagram]), as UdpSocket has it
    address = await links.listen("127.0.0.1", 0, credentials)    # for others to connect
    target = await links.connect("node-b", 7443, root_pem)       # the certificate is checked against the mesh's root
    links.send(data, target)
    await KeptConnection(links, ("node-b", 7443), lambda: root_pem, on_up, on_failed, chance).run()

QUIC keeps packets secret and tells the client which server it talks to. As over UDP, the packet itself says who made
it: servers do not ask clients for certificates (aioquic cannot), so coming by QUIC makes nothing more trustworthy. QUIC
says nothing about the IP header, so every packet arrives with a TTL of 64 and without marks.

- ``configuration``  what both sides insist on
- ``connection``     one connection: frames in, frames out, bounded
- ``links``          all connections of one owner
- ``dialling``       a connection that is made again whenever it ends

Addresses of connections look like ``quic/10.0.0.7``, see ``weft.wire.udp``.
"""

from weft.transport.quic.configuration import ALPN, Shown, read_roots
from weft.transport.quic.connection import QUIC_PACKET_BYTES_MAX
from weft.transport.quic.dialling import KeptConnection
from weft.transport.quic.links import QuicLinks
from weft.wire.udp import is_quic, quic_address, show_any

__all__ = [
    "ALPN",
    "QUIC_PACKET_BYTES_MAX",
    "KeptConnection",
    "QuicLinks",
    "Shown",
    "is_quic",
    "quic_address",
    "read_roots",
    "show_any",
]
