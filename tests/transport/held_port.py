"""A port for servers that stop and start again at the same place: nobody else gets it meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Bound and not listening: whoever dials it is refused, the kernel gives it to nobody, and a server may still have
    it, because servers allow their address to be used again (SO_REUSEADDR) and so does the holder."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
