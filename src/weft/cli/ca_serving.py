"""What ``weft ca serve`` does: the CA's service between 'ready' and a signal."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from weft.node.addresses import parse_address
from weft.security.authority import Authority
from weft.security.ca_server import CaServer


def serve(authority: Authority, listen: str) -> None:
    host, port = parse_address(listen)
    asyncio.run(_serve(CaServer(authority, host, port, time.time)))


async def _serve(server: CaServer) -> None:
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    await server.start()
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asked.wait()
    finally:
        await server.stop()
