"""One event that kills whoever reads it, among ten thousand that do not: it ends as one dead letter (CON-02)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import weft
from tests.mesh.test_under_weft_up import pair
from tests.node.secured import key_for
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode

EVENTS: Final = 10_000
POISON: Final = 4_711
WAIT_S: Final = 240.0  # a bound, not an expectation: the machine may be busy
READER: Final = (sys.executable, "-m", "tests.mesh.poisoned_reader")


@dataclass
class Readers:
    """Processes that are started again when they die."""

    documents: list[dict[str, Any]]
    deaths: int = 0
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def look(self) -> None:
        for number, process in enumerate(self.running):
            if process.poll() is not None:
                self.deaths += 1
                self.running[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*READER, json.dumps(self.documents[number])], env=os.environ)

    @contextmanager
    def all(self) -> Iterator[None]:
        self.running = [self._start(number) for number in range(len(self.documents))]
        try:
            yield
        finally:
            for process in self.running:
                process.kill()
                process.wait(END_TIMEOUT_S)


def readers_of(directory: Path, a: RunningNode, b: RunningNode) -> Readers:
    context = a.context
    tls = [context.tls_root, context.tls_certificate, context.tls_key]
    _, key_of_b = key_for(directory / "b", time.time(), publish=(">",), subscribe=(">",), groups=("billing",))
    places = [(a.grpc, context.token), (a.grpc, context.token), (b.grpc, key_of_b)]
    return Readers(
        [
            {
                "node": node,
                "token": token,
                "tls": tls,
                "member": f"m{number}",
                "notes": str(directory / f"notes-{number}"),
                "poison": str(POISON),
            }
            for number, (node, token) in enumerate(places)
        ]
    )


def handled(directory: Path) -> Counter[int]:
    return Counter(int(line) for path in directory.glob("notes-*") for line in path.read_text().split())


async def publish_all(a: RunningNode) -> None:
    context = a.context
    assert context.tls_root and context.tls_certificate and context.tls_key, "of a secured node"
    tls = weft.TlsFiles(Path(context.tls_root), Path(context.tls_certificate), Path(context.tls_key))
    async with weft.connect(list(context.nodes), token=context.token, tls=tls, partitions=6) as client:
        for number in range(EVENTS):
            client.publish_nowait("orders", str(number), key=f"customer-{number % 100}")
        await client.flush()


def dead(node: RunningNode, *arguments: str) -> Any:
    environ = {**os.environ, "WEFT_CONFIG_DIR": str(node.config)}
    command = [*COMMAND, "dead", *arguments, "--json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=END_TIMEOUT_S, env=environ, check=True)
    return json.loads(found.stdout)


@pytest.mark.req("CON-02")
async def test_poison_that_kills_its_readers_ends_as_one_dead_letter_and_all_others_are_handled(tmp_path: Path) -> None:
    with pair(tmp_path) as (a, b):
        await publish_all(a)
        readers = readers_of(tmp_path, a, b)
        deadline_s = time.monotonic() + WAIT_S
        with readers.all():
            while len(handled(tmp_path)) < EVENTS - 1 or not dead(a, "ls", "billing"):
                assert time.monotonic() < deadline_s, (len(handled(tmp_path)), readers.deaths, a.said()[-2000:])
                readers.look()
                time.sleep(0.2)  # between looks; what is waited for is the condition above
        counted = handled(tmp_path)
        assert counted.keys() == set(range(EVENTS)) - {POISON}
        (letter,) = dead(a, "ls", "billing")
        assert letter["group"] == "billing"
        assert letter["tries"] == 3
        assert letter["event"].startswith("orders@a/")
        assert readers.deaths == 3, "one for each try"
        assert dead(a, "show", "billing", letter["event"])["payload_base64"] == "NDcxMQ=="
        assert 'weft_group_dead_letters_total{group="billing"}' in a.metrics()
        # What was in hand, and done, when a reader was killed may be done again: three windows at most.
        assert sum(counted.values()) - len(counted) <= 3 * 200
        assert dead(a, "drop", "billing", letter["event"]) == [letter["event"]]
        assert dead(a, "ls", "billing") == []
        b.end_quietly()
        a.end_quietly()
