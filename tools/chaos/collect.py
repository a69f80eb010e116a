"""After the faults: ask every node what it has, and write it down beside the journals of the load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

import weft
from tools.chaos.door_sdk import BUCKET, GROUP
from tools.chaos.history import OWN
from tools.chaos.journal import Journal
from tools.chaos.load import Settings
from tools.chaos.nodes import WEFT, ChaosNode, Mesh
from weft.errors import WeftError

CONVERGE_S: Final = 180.0
READ_AT_ONCE: Final = 3  # logs


async def ask(settings_file: str) -> None:
    """The buckets of all nodes, once they agree or no time is left; and the dead letters."""
    settings = msgspec.json.decode(Path(settings_file).read_bytes(), type=Settings)
    until = time.monotonic() + CONVERGE_S
    while True:
        buckets = {name: await _bucket(settings, name) for name in settings.nodes}
        first = next(iter(buckets.values()))
        if all(bucket == first for bucket in buckets.values()) or time.monotonic() > until:
            break
        await asyncio.sleep(2)
    journal = Journal(Path(settings.journals) / "collected.jsonl")
    for node, bucket in buckets.items():
        if isinstance(bucket, str):
            journal.note("unasked", node=node, why=bucket)
            continue
        for key, (value, revision) in bucket.items():
            journal.note("entry", node=node, key=key, value=value, revision=revision)
    async with _client(settings, *settings.nodes) as client:
        for letter in await client.dead_letters(GROUP):
            journal.note("dead", text=letter.event.payload.decode(errors="replace"), tries=letter.tries)


def _client(settings: Settings, *names: str) -> Any:
    nodes = [settings.nodes[name] for name in names]
    return weft.connect(nodes, tls=weft.TlsFiles(Path(settings.root)), token=settings.token, learns=False)


async def _bucket(settings: Settings, name: str) -> dict[str, tuple[str, str]] | str:
    """Keys with their values and revisions; or why the node does not tell."""
    try:
        async with _client(settings, name) as client:
            entries = await client.kv(BUCKET).entries()
    except WeftError as error:
        return str(error)
    return {each.key: ((each.value or b"").decode(), str(each.revision)) for each in entries}


def read_logs(mesh: Mesh, journals: Path) -> None:
    """Of nodes that have ended, by ``weft log cat``, some at a time."""
    journal = Journal(journals / "logs.jsonl")
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        list(pool.map(lambda node: _read_log(node, journal), mesh.everybody))


def _read_log(node: ChaosNode, journal: Journal) -> None:
    command = (WEFT, "log", "cat", ">", "--data", str(node.data), "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["topic"].startswith(OWN):
                journal.note("logged", node=node.name, **_facts(event))
        _, errors = process.communicate()
    if errors.strip():
        journal.note("log_said", node=node.name, what=errors[:2000])


def _facts(event: dict[str, Any]) -> dict[str, Any]:
    place = [event["topic"], event["origin"], event["partition"], event["epoch"], event["offset"]]
    return {"place": place, "text": event.get("payload", "")}


def read_table(table: Path, journals: Path) -> int:
    """The rows of what ``archive`` wrote, by a library of others; how many."""
    from deltalake import DeltaTable

    journal = Journal(journals / "table.jsonl")
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    for row in rows:
        place = [row["topic"], row["origin"], row["partition"], row["epoch"], row["offset"]]
        journal.note("row", place=place, text=row["value"].decode(errors="replace"))
    return len(rows)


if __name__ == "__main__":
    import sys

    asyncio.run(ask(sys.argv[1]))
