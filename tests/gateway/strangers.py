"""Those who connect to a gateway's TCP port and do not speak its protocol."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time, so that closing is a reset
GARBAGE: Final = bytes(range(256)) * 16
EACH: Final = 16


@contextmanager
def strangers(address: str) -> Iterator[None]:
    """Some have hung up at once, some sent garbage, some are still there and silent."""
    host, _, port = address.rpartition(":")
    with ExitStack() as open_ones:
        for number in range(4 * EACH):
            connected = open_ones.enter_context(socket.create_connection((host, int(port))))
            match number % 4:
                case 0:
                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    connected.close()
                case 1:
                    connected.sendall(GARBAGE)
                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    connected.close()
                case 2:
                    connected.sendall(GARBAGE)
                case _:
                    pass
        yield
