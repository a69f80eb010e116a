"""A secured node as users start it, with keys of several kinds, and a browser without a screen: an HTTP client."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.signing import Place
from tests.console.three_nodes import ThreeNodes, three_nodes
from tests.up import up
from weft.security import SALT_BYTES, SECRET_BYTES
from weft.security.key_store import KeyRequest, create_key

FEW = KeyRequest("few", ("orders.>",), ("orders.>",))


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    data = tmp_path_factory.mktemp("console") / "a"
    with up(data, "--node-id", "a") as node:
        token = node.context.token
        assert token is not None
        yield Place(node, data, token, new_key(data, FEW))
        node.end_quietly()


@pytest.fixture(scope="package")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with three_nodes(tmp_path_factory.mktemp("mesh"), lambda data: new_key(data, FEW)) as mesh:
        yield mesh


def new_key(data: Path, wanted: KeyRequest) -> str:
    return create_key(data, wanted, secrets.token_bytes(SECRET_BYTES + SALT_BYTES), time.time())[1].reveal()
