"""Which node a client command talks to, and as whom: flags, a context, or the node on this machine."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rich.markup import escape

import weft
from weft.cli.console import err
from weft.cli.options import INTERRUPTED, Where
from weft.client import Client, Hooks, Options
from weft.client.connecting import tls_files
from weft.client.nodes import NoNodeAnswers
from weft.contexts import CONTEXT_VARIABLE, Context, contexts_path, read_contexts
from weft.errors import UsageError
from weft.telemetry import traced_by_environment

DEFAULT_NODE: Final = "127.0.0.1:7400"
CONNECT_TIMEOUT_S: Final = 5.0  # a person waits
PATIENCE_S: Final = 2.0  # a person waits this long before a line says why
PUBLISH: Final = "publish"
STANDING: Final = (PUBLISH, "subscribe", "calls")  # what the client's hooks call the streams that stay open

T = TypeVar("T")

logging.getLogger("weft").addHandler(logging.NullHandler())  # what the client logs, Notes and errors say already


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect; ``source`` tells people where that came from."""

    context: Context
    source: str

    @property
    def nodes(self) -> str:
        return ", ".join(self.context.nodes)


def choose_target(where: Where, environ: Mapping[str, str]) -> Target:
    """Flags come before a named context, and a named context before the current one.

    With ``--node`` and no named context, the current context is not used: its keys are not meant for those nodes.
    """
    named = where.context or environ.get(CONTEXT_VARIABLE)
    if where.nodes and not named:
        return Target(Context(tuple(where.nodes), where.insecure), "--node")
    contexts = read_contexts(contexts_path(environ))
    chosen = named or contexts.current
    if chosen is None:
        return Target(Context((DEFAULT_NODE,), where.insecure), "the default")
    context = contexts.get(chosen)
    return Target(
        Context(
            tuple(where.nodes or context.nodes),
            where.insecure or context.insecure,
            context.token,
            context.tls_root,
            context.tls_certificate,
            context.tls_key,
        ),
        f"context {chosen}",
    )


def with_client(where: Where, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Connect, do the work, close. Ctrl-C ends it silently."""
    target = choose_target(where, os.environ)
    if target.source == "the default":
        hint = f"no --node and no context: trying {DEFAULT_NODE} (`weft context add` remembers where your nodes are)"
        err.print(hint, style="dim")

    async def session() -> T:
        async with connected(target) as client:
            return await work(client)

    try:
        with traced_by_environment(os.environ, "weft-cli"):
            return asyncio.run(session())
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


class Notes(Hooks):
    """Says on standard error when the connection to a node is lost or back, and why something waits."""

    def __init__(self) -> None:
        self._is_lost = False
        self._reason = ""  # why the last try failed
        self._telling: asyncio.TimerHandle | None = None  # as long as something waits

    def on_disconnected(self, address: str, node: str, purpose: str, reason: str) -> None:
        if not self._is_lost:  # once, until there is a node again
            err.print(escape(f"lost {node} at {address}: {reason}"), style="dim", soft_wrap=True)
        self._is_lost = True

    def on_connected(self, address: str, node: str, purpose: str) -> None:
        if self._is_lost:
            err.print(escape(f"connected to {node} at {address}"), style="dim", soft_wrap=True)
        self._is_lost = False
        if purpose != PUBLISH:  # a node may be connected and still refuse events
            self._wait_no_more()

    def on_retry(self, purpose: str, delay_s: float, reason: str) -> None:
        if purpose not in STANDING:  # a single call ends soon, and no hook tells that
            return
        self._reason = reason
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell)

    def on_published(self, topic: str, events: int, size_bytes: int, latency_s: float) -> None:
        self._wait_no_more()

    def on_publish_failed(self, topic: str, events: int, reason: str) -> None:
        self._wait_no_more()

    def _wait_no_more(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
        self._telling = None

    def _tell(self) -> None:
        err.print(escape(f"waiting: {self._reason}; trying again"), style="dim", soft_wrap=True)


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Client]:
    """A client that is connected, and closed in the end."""
    context = target.context
    if not context.insecure and context.tls_root is None:
        raise UsageError(
            f"there is no certificate to check {target.nodes} ({target.source}) with: name a context that has it "
            "(--context NAME, see `weft context list`), and use --insecure only for nodes that were started with it"
        )
    connecting = weft.connect(
        context.nodes,
        insecure=context.insecure,
        tls=tls_files(context),
        token=context.token,
        options=Options(connect_timeout_s=CONNECT_TIMEOUT_S),
        hooks=Notes(),
    )
    patience = asyncio.get_running_loop().call_later(PATIENCE_S, _tell_of_waiting, target)
    try:
        client = await connecting
    except NoNodeAnswers as error:
        raise UsageError(_no_answer(target, error.troubles)) from None
    finally:
        patience.cancel()
    async with client:
        yield client


def _tell_of_waiting(target: Target) -> None:
    words = f"no answer yet from {target.nodes} ({target.source}); trying for {CONNECT_TIMEOUT_S:g} s"
    err.print(escape(words), style="dim", soft_wrap=True)


def _no_answer(target: Target, troubles: Mapping[str, str]) -> str:
    """One line. Only for a refused connection does it ask whether the node is up: other reasons are clear already."""
    one = len(target.context.nodes) == 1
    reasons = "; ".join(trouble if one else f"{address}: {trouble}" for address, trouble in troubles.items())
    is_up = all(trouble.startswith("cannot connect") for trouble in troubles.values())
    where = f"no node answers at {target.nodes} ({target.source})"
    return (f"{where}: {reasons}" if reasons else where) + ("; is it up?" if is_up else "")
