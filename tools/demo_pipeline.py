"""The part of ``make demo`` with devices and Spark: signed datagrams over UDP, into the log, into a Delta table."""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from deltalake import DeltaTable
from rich.console import Console
from rich.rule import Rule

import weft
from tools.demo_mesh import DemoNode
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device
from weft.wire import emm

LINES, EVENTS, FORGERIES = 3, 300, 5
WAIT_S = 600.0  # for anything; a machine that is busy with something else is no failure
DEVICE, KEY_ID = uuid4(), b"key1"

PIPELINE = """
[mesh]
nodes = ["{node}"]
insecure = true
[source]
subscribe = "emm.>"
starting = "earliest"
[table]
path = "{place}/events"
[run]
checkpoint = "{place}/checkpoint"
"""


def show_pipeline(console: Console, say: Callable[[str], None]) -> None:
    console.print(Rule("From a device to a table: UDP, the mesh, Spark"))
    with tempfile.TemporaryDirectory() as directory:
        place, secret = Path(directory), secrets.token_bytes(32)
        add_device(place / "gate", DeviceKey(DEVICE, KEY_ID, KeyKind.HMAC, Secret(secret)))
        port = _free_udp_port()
        node = DemoNode(place, "gate", settings={"WEFT_GATEWAY_EMM_UDP": f"127.0.0.1:{port}"})
        try:
            say(f"A device sends {EVENTS} signed events over UDP, somebody else {FORGERIES} under its name:")
            seen = asyncio.run(_send(node.address, port, secret))
            for topic, count in sorted(seen.items()):
                console.print(f"  {count:>4}  {topic}")
            say("`weft pipeline run archive` has Spark take them into a Delta table (a JVM starts):")
            console.print(f"  {_archive(place, node.address)}")
        finally:
            node.stop()
        say("The node is gone. What any reader of Delta finds:")
        table = DeltaTable(place / "events").to_pyarrow_table()
        for row in table.group_by("topic").aggregate([("offset", "count")]).sort_by("topic").to_pylist():
            console.print(f"  {row['offset_count']:>4}  {row['topic']}")


async def _send(node: str, port: int, secret: bytes) -> Counter[str]:
    """Returns what a subscriber saw, by topic."""
    honest, forger = (emm.Credentials(KEY_ID, hmac_key=key) for key in (secret, bytes(32)))
    seen: Counter[str] = Counter()
    async with asyncio.timeout(WAIT_S), weft.connect(node, insecure=True) as client:
        async with client.subscribe("emm.>", start="earliest") as events:
            await events.opened()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
                for number in range(EVENTS + FORGERIES):
                    signed = honest if number < EVENTS else forger
                    device.sendto(_datagram(number, signed), ("127.0.0.1", port))
                    await asyncio.sleep(0.001)
            async for event in events:
                seen[event.topic] += 1
                if seen.total() == EVENTS:
                    break
        async with client.subscribe("weft.quarantine.emm", start="earliest") as refused:
            async for event in refused:
                seen[event.topic] += 1
                if seen[event.topic] == FORGERIES:
                    break
    return seen


def _datagram(number: int, signed: emm.Credentials) -> bytes:
    name = f"plant.line{number % LINES}.temp"
    return emm.build(emm.draft_event(number, int(time.time()), name, 20 + number % 9, node_id=DEVICE), signed)


def _archive(place: Path, node: str) -> str:
    """The command's last word."""
    config = place / "archive.toml"
    config.write_text(PIPELINE.format(node=node, place=place))
    command = [str(Path(sys.executable).parent / "weft"), "pipeline", "run", "archive", "--config", str(config)]
    command += ["--available-now", "--state-dir", str(place / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"the pipeline failed: {done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
