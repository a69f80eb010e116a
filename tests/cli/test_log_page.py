"""The commands of docs/log.md print what the page shows, on a log like the page's."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Weft
from tests.docs.blocks import Block, blocks_for
from tests.docs.shell import compare, steps_of
from weft.log import Log, open_log
from weft.model import Batch, Epoch, Event, NodeId, Stream, parse_topic

EPOCH = 1_794_700_000_000
MIDNIGHT_US = 1_794_700_800_000_000  # 2026-11-15T00:00:00Z
BLOCKS = blocks_for("docs/log.md", __file__)
# RocksDB's threads may not have merged or removed some files yet when the log is looked at.
FILES = re.compile(r"(?<=table files      )\d+|(?<=write-ahead log  )\d+")


def stream(topic: str) -> Stream:
    return Stream(parse_topic(topic), NodeId("node-a"), 0)


def reading(second: int, line: int) -> Event:
    celsius = 20 + (second * 37 + line * 11) % 500 / 100
    return Event(b'{"t": %.2f}' % celsius, MIDNIGHT_US + second * 1_000_000, headers={"unit": "C"})


def state(number: int) -> Event:
    return Event(b"on" if number % 3 else b"off", MIDNIGHT_US + number * 10_000_000, b"m%d" % (number % 5))


def fill(log: Log) -> None:
    """100 minutes: a reading of two lines each second, a state of one of five machines each ten seconds."""
    for first in range(0, 6000, 100):
        for line in (1, 2):
            readings = [reading(second, line) for second in range(first, first + 100)]
            log.append(stream(f"plant.line{line}.temp"), Batch.from_events(readings))
        states = [state(number) for number in range(first // 10, first // 10 + 10)]
        log.append(stream("plant.machine.state"), Batch.from_events(states))
        log.sync()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = os.umask(0o077)
    directory = tmp_path_factory.mktemp("log") / "data"
    log = open_log(directory, lambda: Epoch(EPOCH))
    fill(log)
    log.close()
    os.umask(before)
    yield directory


@pytest.mark.parametrize("block", BLOCKS, ids=[block.place for block in BLOCKS])
def test_the_commands_print_what_the_page_shows(block: Block, weft: Weft, made: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(made, data)
    for step in steps_of(block.language, block.code):
        outcome = weft(*shlex.split(step.text.replace("/var/lib/weft", str(data)))[1:])
        assert outcome.status == 0, outcome.err
        lacking, _ = compare(tuple(FILES.sub("N", line) for line in step.shown), FILES.sub("N", outcome.out))
        assert lacking is None, f"{block.place}: `{step.text.strip()}` does not print: {lacking}\nbut:\n{outcome.out}"
