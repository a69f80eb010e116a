"""A reader that one event kills: run as a process of its own by ``test_poison``. It notes what it has handled.

Its arguments are one JSON document: where and as whom to connect, the file to note in, and the deadly payload.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import weft
from weft.client import Received


async def main(wanted: dict[str, Any]) -> None:
    notes = os.open(wanted["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    poison = wanted["poison"].encode()

    async def handle(event: Received) -> None:
        if event.payload == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(notes, event.payload + b"\n")

    tls = weft.TlsFiles(*map(Path, wanted["tls"]))
    async with weft.connect(wanted["node"], tls=tls, token=wanted["token"], learns=False) as client:
        await client.run(
            handle,
            "orders",
            group="billing",
            member=wanted["member"],
            start="earliest",
            concurrency=8,
            window=200,
            max_deliveries=3,
            retry_s=(0.1, 0.5),
            retry="set_aside",
        )


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
