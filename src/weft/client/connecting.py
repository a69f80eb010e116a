"""``weft.connect``: finds out which nodes to connect to, and with which key, and makes the client when awaited."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from weft.client.backoff import Draw
from weft.client.client import Client
from weft.client.hooks import Hooks
from weft.client.nodes import Nodes
from weft.client.options import ClientTls, Options, TlsFiles, parse_nodes
from weft.contexts import Context, chosen_context
from weft.errors import UsageError
from weft.limits import PARTITIONS_MAX
from weft.model.batch_header import PRODUCER_BYTES


class Connecting:
    """What ``connect`` returns: await it for a client, or use ``async with`` for one that is closed at the end."""

    def __init__(self, nodes: Callable[[], Nodes], partitions: int) -> None:
        self._nodes = nodes
        self._partitions = partitions
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        nodes = self._nodes()
        try:
            await nodes.connect()
        except BaseException:
            await nodes.close()
            raise
        return Client(
            nodes,
            client_id=secrets.token_hex(8),
            producer=secrets.token_bytes(PRODUCER_BYTES),
            partitions=self._partitions,
        )


def connect(
    nodes: str | Sequence[str] | None = None,
    *,
    context: str | None = None,
    insecure: bool = False,
    tls: ClientTls | TlsFiles | None = None,
    token: str | None = None,
    name: str = "",
    partitions: int = 1,
    learns: bool = True,
    options: Options | None = None,
    hooks: Hooks | None = None,
    chance: Draw | None = None,
) -> Connecting:
    """Connect to a mesh by one or more of its nodes, ``host:port``. Await what is returned, or enter it.

    Without nodes, a context says where and as whom to connect, as for the ``weft`` command: the named one, or the
    current one, which ``weft up`` has made. Other arguments override it.

    ``partitions`` spreads the events of each topic by key. ``learns=False`` uses only these nodes, and not the others
    that they mention. ``chance`` is for tests that want repeatable retries.
    """
    if nodes is None or context is not None:
        found = chosen_context(context, os.environ)
        nodes = found.nodes if nodes is None else nodes
        token = found.token if token is None else token
        if not insecure and tls is None:
            insecure, tls = found.insecure, tls_files(found)
    addresses = parse_nodes(nodes)
    if insecure and tls is not None:
        raise UsageError("insecure and tls contradict each other: pass one of them")
    if not insecure and tls is None:
        raise UsageError(
            "no security given: pass tls=ClientTls(...) or a context, or insecure=True for plain text on loopback"
        )
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise UsageError("a topic has at least one partition", partitions=partitions, limit=PARTITIONS_MAX)

    def make_nodes() -> Nodes:
        return Nodes(
            addresses,
            tls=tls,
            token=token,
            name=name,
            options=options or Options(),
            hooks=hooks or Hooks(),
            chance=chance or random.random,
            learns=learns,
        )

    return Connecting(make_nodes, partitions)


def tls_files(context: Context) -> TlsFiles | None:
    """The files that a context names."""
    if context.insecure or context.tls_root is None:
        return None
    certificate, key = (None if each is None else Path(each) for each in (context.tls_certificate, context.tls_key))
    return TlsFiles(Path(context.tls_root), certificate, key)
