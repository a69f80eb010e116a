"""What ``weft ca serve`` does: the CA's service between 'ready' and a signal."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from rich.markup import escape

from weft.cli.console import err
from weft.doors import Doorkeeper
from weft.doors.descriptors import CA_CONNECTIONS_MAX, file_limit
from weft.doors.http import http_limits
from weft.errors import WeftError
from weft.security.authority import Authority
from weft.security.ca.server import CaServer
from weft.transport.addresses import parse_address


def serve(authority: Authority, listen: str) -> None:
    host, port = parse_address(listen)
    most = min(CA_CONNECTIONS_MAX, file_limit().now // 2)  # half is for its files
    door = Doorkeeper().door("ca", http_limits(most), apart=True)
    asyncio.run(_serve(CaServer(authority, host, port, time.time, _say, door)))


def _say(error: WeftError) -> None:
    err.print(f"the CA has a problem: {escape(str(error))}", soft_wrap=True)


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
