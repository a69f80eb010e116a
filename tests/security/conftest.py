"""A CA of its own for every test, copied from one that is made once: making one syncs six files."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security import pki
from weft.security import Authority


@pytest.fixture(scope="session")
def made_ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pki.authority(tmp_path_factory.mktemp("made")).directory


@pytest.fixture
def ca(made_ca: Path, tmp_path: Path) -> Authority:
    """Made at NOW_S."""
    return Authority.open(Path(shutil.copytree(made_ca, tmp_path / "ca")))


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Bound and not listening, so that nobody else gets it and nobody answers."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
