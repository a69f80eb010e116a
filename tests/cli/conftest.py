"""What tests of commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Weft
from tests.up import RunningNode, up


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """As on most machines. Commands set another for their process, which in most of these tests is this one."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Weft:
    return Weft(monkeypatch, capsys, tmp_path / "config")


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node for all tests, because it takes a while to start: each keeps to topics of its own."""
    with up(tmp_path_factory.mktemp("node") / "data", "--insecure", "--node-id", "node-a") as running:
        yield running
