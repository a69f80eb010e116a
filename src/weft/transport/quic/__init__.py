"""QUIC for datagram protocols: one packet per DATAGRAM frame (RFC 9221), ALPN ``emp/1`` (EMM-28).

    links = QuicLinks(on_datagrams, on_gone)                     # on_datagrams(Sequence[Datagram]), as UdpSocket has it
    address = await links.listen("127.0.0.1", 0, credentials)    # for others to connect
    target = await links.connect("node-b", 7443, root_pem)       # the certificate is checked against the mesh's root
    links.send(data, target)
    await KeptConnection(links, ("node-b", 7443), lambda: root_pem, on_up, on_failed, chance).run()

QUIC encrypts packets and tells the client which server it talks to. But servers do not ask clients for certificates
(aioquic cannot). So a packet that comes by QUIC is no more trustworthy than one that comes by UDP: in both cases only
the packet itself says who made it. QUIC hides the IP header, so every packet arrives with a TTL of 64 and no marks.

- ``configuration``  settings of both sides
- ``connection``     one connection: it receives and sends frames, within bounds
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
