"""An S3 for tests: a real endpoint, started once for all tests of a process, with a bucket for whoever asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from weft.lake.access import StoreAccess
from weft.lake.address import parse_address
from weft.lake.store import Store, open_store

REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "AKIDWEFTTESTS", "not-to-be-seen-anywhere"
TIMEOUT_S = 60.0
NUMBERS = count()


@dataclass(frozen=True)
class S3:
    """What a test needs to know of it."""

    endpoint: str
    place: Path

    def bucket(self) -> str:
        """A new one, as an address."""
        name = f"lake{next(NUMBERS)}"
        with urlopen(Request(f"{self.endpoint}/{name}", method="PUT"), timeout=TIMEOUT_S):  # noqa: S310  loopback
            return f"s3://{name}"

    @property
    def section(self) -> dict[str, str]:
        """For ``[table.store]``."""
        return {
            "endpoint": self.endpoint,
            "access_key": f"file:{self.place / 'access'}",
            "secret_key": f"file:{self.place / 'secret'}",
        }

    @property
    def access(self) -> StoreAccess:
        return StoreAccess(**self.section)

    def store(self, address: str) -> Store:
        return open_store(parse_address(address), self.access)

    def iceberg(self, catalog: Path) -> dict[str, str]:
        """Properties of a SQL catalog for pyiceberg."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{catalog}",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }


@contextmanager
def running_s3(place: Path) -> Iterator[S3]:
    command = [sys.executable, "-m", "tests.pipelines.s3_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            port = int(process.stdout.readline())
            (place / "access").write_text(ACCESS_KEY)
            (place / "secret").write_text(SECRET_KEY)
            yield S3(f"http://127.0.0.1:{port}", place)
        finally:
            process.stdin.close()
            process.wait(TIMEOUT_S)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with running_s3(tmp_path_factory.mktemp("s3")) as made:
        yield made
