"""HTTP/2 on sockets: ``endpoint`` joins a connection of ``weft.wire.http2`` to a transport; ``tls`` goes between
them."""
