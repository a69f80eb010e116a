"""Kill -9 at any moment: every receipt that was given is readable afterwards, offsets follow each other, nothing is
invented. The seed of a run is in the message of a failure; WEFT_CRASH_SEED repeats it, WEFT_SOAK=1 kills 200 times."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random as Chance
from random import SystemRandom

import pytest

from tests.log import crash_child
from tests.log.laboratory import read_out
from weft.log import open_read_only
from weft.log.errors import UnknownStream
from weft.model import Epoch, parse_stream

ROUNDS = 200 if os.environ.get("WEFT_SOAK") else 40
LIVES_PER_LOG = 20  # then another log: so that young ones are killed, too, while they are being made
SEED = int(os.environ.get("WEFT_CRASH_SEED", "0")) or SystemRandom().randrange(1, 1 << 32)
EPOCH = Epoch(1)


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, crash_child.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    yield process
    process.communicate(timeout=30)


@dataclass
class Record:
    """What the parent knows of a log: the receipts, by stream."""

    receipts: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.receipts.values()))

    def take(self, line: str) -> None:
        _, at, *numbers = line.split()
        first_offset, count, life, number = map(int, numbers)
        self.receipts.setdefault(at, []).append((first_offset, count, life, number))


def live_and_die(nursery: subprocess.Popen[str], directory: Path, life: int, chance: Chance) -> list[str]:
    """Let a victim live until a moment nobody can foresee; what it said."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{directory} {life} {chance.randrange(1 << 32)}\n")
    victim = int(nursery.stdout.readline().removeprefix("born "))
    said: list[str] = []
    for _ in range(chance.choice((0, 0, 1, 10, 100, 400))):
        said.append(nursery.stdout.readline().strip())
    assert all(line.startswith("synced ") for line in said), said[-1]
    time.sleep(chance.random() * 0.03)
    os.kill(victim, signal.SIGKILL)
    while (line := nursery.stdout.readline().strip()) != "dead":
        said.append(line)
    assert all(line.startswith("synced ") for line in said), said[-1]
    return said


def verify(directory: Path, record: Record) -> int:
    """Read everything; how many events there are."""
    log = open_read_only(directory)
    events = 0
    assert not log.cuts
    for at, receipts in record.receipts.items():
        stream = parse_stream(at)
        found = read_out(log, stream, EPOCH).events
        info = log.info(stream, EPOCH)
        assert list(found) == list(range(info.start, info.end)), "offsets follow each other"
        assert not info.start or info.bytes >= crash_child.RETAINED_BYTES, "retention left what it had to"
        order = [tuple(map(int, payload.split(b"|")[1:3])) for payload in found.values()]
        assert order == sorted(set(order)), "events are in the order of their appends, and there once"
        assert all(payload.startswith(stream.topic.encode() + b"|") for payload in found.values())
        for first_offset, count, life, number in receipts:
            for offset in range(max(first_offset, info.start), first_offset + count):
                name = b"%s|%d|%d|" % (stream.topic.encode(), life, number + offset - first_offset)
                assert found[offset].rstrip(b".") == name, "what has a receipt is there"
        events += len(found)
    log.close()
    return events


@pytest.mark.req("LOG-01", "LOG-02", "LOG-03")
def test_what_has_a_receipt_survives_kill_9(nursery: subprocess.Popen[str], tmp_path: Path) -> None:
    chance = Chance(SEED)  # noqa: S311
    begun = time.monotonic()
    receipts = events = 0
    for first_life in range(0, ROUNDS, LIVES_PER_LOG):
        directory, record = tmp_path / str(first_life), Record()
        for life in range(first_life, min(first_life + LIVES_PER_LOG, ROUNDS)):
            for line in live_and_die(nursery, directory, life, chance):
                record.take(line)
            if record.receipts:
                try:
                    events = verify(directory, record)
                except (AssertionError, UnknownStream) as error:
                    raise AssertionError(f"seed {SEED}, life {life} in {directory}") from error
        receipts += record.count
    took_s = time.monotonic() - begun
    print(f"seed {SEED}: {ROUNDS} kills, {receipts} receipts, {events} events left in the last log, {took_s:.1f} s")  # noqa: T201
    assert receipts > ROUNDS, "the victims have lived for a while"
