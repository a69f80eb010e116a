"""Protected nodes in the test's own process: the first has the CA, the others enrol with tokens."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import weft
from tests.node.raw_client import WAIT_S
from tests.node.running import config_of
from weft.node.runtime import Node
from weft.security import (
    SALT_BYTES,
    SECRET_BYTES,
    Authority,
    Credentials,
    KeyRequest,
    LocalSource,
    Names,
    Secret,
    ca_directory,
    client,
    create_key,
    node,
    provisioner_of,
)

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def secure_config(data: Path, node_id: str, **overrides: Any) -> Any:
    return config_of(data, node_id, **{"insecure": False, "link__backoff_s_max": 0.5, **overrides})


def authority_of(first: Node) -> Authority:
    return Authority.open(ca_directory(first.config.node.data))


def token_for(authority: Authority, node_id: str, now_s: float) -> Secret[str]:
    names = Names(node(authority.settings.mesh, node_id), LOOPBACK)
    return provisioner_of(authority).make(names, secrets.token_hex(8), now_s)


def token_from(data: Path, node_id: str) -> str:
    """What ``weft ca token`` prints beside the node with the CA, without a process for it: tests/cli/test_ca.py has the
    command."""
    return token_for(Authority.open(ca_directory(data)), node_id, time.time()).reveal()


def client_credentials(authority: Authority, now_s: float, name: str = "test") -> Credentials:
    return LocalSource(authority).enrol(Names(client(authority.settings.mesh, name)), now_s)


def key_for(data: Path, now_s: float, **rights: Any) -> tuple[str, str]:
    """Its id, and the key."""
    record, key = create_key(
        data, KeyRequest(**{"name": "test", **rights}), secrets.token_bytes(SECRET_BYTES + SALT_BYTES), now_s
    )
    return record.id, key.reveal()


def tls_of(first: Node) -> weft.TlsFiles:
    """What the first node has put down for clients of its machine."""
    files = first.protection.client
    assert files is not None
    return weft.TlsFiles(files.root, files.identity, files.identity)


@asynccontextmanager
async def secured(
    directory: Path, now_s: float, *names: str, lifetime_s: int = 86_400, **overrides: Any
) -> AsyncIterator[list[Node]]:
    """A chain of nodes, each linked to the one before."""
    async with AsyncExitStack() as parts:
        nodes: list[Node] = []
        for name in names:
            settings: dict[str, Any] = {"security__certificate_lifetime_s": lifetime_s, **overrides}
            if nodes:
                settings |= {
                    "security__ca_url": f"https://{nodes[0].protection.ca_address}",
                    "security__token": token_for(authority_of(nodes[0]), name, now_s),
                    "peers": [nodes[-1].grpc_address],
                }
            else:
                settings["listen__ca"] = "127.0.0.1:0"
            running = Node(secure_config(directory / name, name, **settings))
            await running.start()
            parts.push_async_callback(running.stop)
            nodes.append(running)
        await until(lambda: all(linked(one, other) for one, other in pairwise(nodes)))
        yield nodes


def linked(one: Node, other: Node) -> bool:
    return all(
        any(view.connected and view.peer == far.node_id for view in near.links.links())
        for near, far in ((one, other), (other, one))
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.02)
