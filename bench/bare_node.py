"""A log in as little Python as it takes: a message is a length and bytes, and it is synced before it is answered.

It checks nothing, knows no topics and forgets what it wrote. It shows what uvloop, two processes and a sync of the disk
cost, and so what no node in Python can be quicker than. Started by ``bench.by_python``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

import uvloop

LENGTH_BYTES = 4
ANSWER = (8).to_bytes(LENGTH_BYTES, "big") + bytes(8)
FILE_BYTES = 64 << 20  # written ahead, and again from the front when it is full: a file that grows syncs more slowly
BLOCK_BYTES = 4096


class BareLog:
    """What comes in one turn of the loop is one write and one sync."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR)
        for at in range(0, FILE_BYTES, 1 << 20):
            os.pwrite(self._file, bytes(1 << 20), at)
        os.fsync(self._file)
        self._at = 0
        self._pieces: list[bytes] = []
        self._owed: list[tuple[asyncio.Transport, int]] = []

    def append(self, transport: asyncio.Transport, messages: int, data: bytes) -> None:
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._sync)
        self._pieces.append(data)
        self._owed.append((transport, messages))

    def _sync(self) -> None:
        data = b"".join(self._pieces)
        if self._at + len(data) > FILE_BYTES:
            self._at = 0
        os.pwrite(self._file, data, self._at)
        os.fdatasync(self._file)
        self._at += len(data)
        self._pieces.clear()
        owed, self._owed = self._owed, []
        for transport, messages in owed:
            transport.write(ANSWER * messages)


class BareConnection(asyncio.Protocol):
    def __init__(self, log: BareLog) -> None:
        self._log = log
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of it

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        messages, at = whole(data)
        self._rest = data[at:]
        if messages:
            self._log.append(self._transport, messages, data[:at])


def whole(data: bytes) -> tuple[int, int]:
    """How many messages are complete, and where the last of them ends."""
    messages, at = 0, 0
    while (body := at + LENGTH_BYTES) <= len(data):
        after = body + int.from_bytes(data[at:body], "big")
        if after > len(data):
            break
        messages, at = messages + 1, after
    return messages, at


async def serve(path: Path, port: int) -> None:
    log = BareLog(path)
    server = await asyncio.get_running_loop().create_server(lambda: BareConnection(log), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
