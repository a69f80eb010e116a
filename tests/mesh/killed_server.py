"""A server of requests, run as a process of its own by ``test_requests``; it may be killed at any time.

Its arguments are one JSON document: where and as whom to connect, its name, and the file to note in what it was handed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import weft
from weft.client import Request


async def main(wanted: dict[str, Any]) -> None:
    notes = os.open(wanted["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    name = wanted["name"]

    async def handle(request: Request) -> str:
        os.write(notes, request.payload + b"\n")
        if request.payload.startswith(b"hold"):
            await asyncio.Event().wait()  # until it is killed
        return f"{name} {request.payload.decode()}"

    tls = weft.TlsFiles(*map(Path, wanted["tls"]))
    async with weft.connect(wanted["node"], tls=tls, token=wanted["token"], learns=False) as client:
        await client.serve("work", handle, concurrency=4).wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
