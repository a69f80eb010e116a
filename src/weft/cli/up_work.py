"""What ``weft up`` does: configuration, logs, signals, and a node between ``start`` and ``stop``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvloop
from rich.markup import escape

from weft.cli.console import err, fail
from weft.cli.garbage import GarbageKeeper
from weft.cli.local_context import remember
from weft.contexts import contexts_path
from weft.doors.descriptors import FileLimit, raise_file_limit
from weft.errors import StorageError, UsageError
from weft.heap import NODE_KEPT_BYTES, give_back_freed_memory, keep_freed_memory
from weft.node.backup import check_is_no_backup
from weft.node.config import NodeConfig
from weft.node.config.loading import load_config
from weft.node.logs import configure_logs, plain_logger
from weft.node.runtime import Node
from weft.node.twins import TwinFound
from weft.security.exposure import close_to_others
from weft.transport.addresses import Address, parse_address

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
TWIN_STATUS: Final = 78  # EX_CONFIG of sysexits.h: a service should not start it again (RestartPreventExitStatus=)
SIGNALLED: Final = 128  # plus its number: the status of a process that a signal has ended


def serve(file: Path | None, flags: Mapping[str, object]) -> None:
    """Run a node to its end; raise WeftError if it does not start, or can no longer keep its promises."""
    config = load_config(file, os.environ, flags)
    configure_logs(config.log.level, config.log.format)
    if config.node.data.exists() and not config.node.data.is_dir():
        raise UsageError(f"{config.node.data} is a file: --data (node.data) is the directory of a node")
    check_is_no_backup(config.node.data)
    _close_data(config.node.data)
    with _without_pandas(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        failure = runner.run(run(config, raise_file_limit()))
    if isinstance(failure, TwinFound):
        fail(str(failure), TWIN_STATUS)
    if failure is not None:
        raise failure


class _NoPandas:
    """Tells Python that there is no pandas (a finder of ``sys.meta_path``).

    pyarrow imports pandas with its first array, if there is one. A node never uses it, and it takes 0.3 s of processor
    time, just when the first client comes, and 40 MB. ``None`` in ``sys.modules`` would not do: compiled modules get
    that ``None`` instead of an error.
    """

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("a node does without pandas", name=name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _close_data(data: Path) -> None:
    """Events are for nobody else to read, whatever the directory was like before (new files: see ``main``)."""
    exposure = close_to_others(data)
    logger = plain_logger()
    if (closed := exposure.closed).count:
        advice = "closed now; others may have read the secrets in it"
        logger.warning(
            "data_was_open", directory=str(data), to=closed.to, count=closed.count, first=closed.first, advice=advice
        )
    if (left := exposure.left).count:
        advice = "only their owner can close them; files that the node writes there are closed"
        logger.warning(
            "data_stays_open", directory=str(data), to=left.to, count=left.count, first=left.first, advice=advice
        )


async def run(config: NodeConfig, files: FileLimit) -> StorageError | None:
    """None if it was asked to stop; what ended it otherwise."""
    asked = Asked()
    asked.listen()
    node = Node(config, files)
    starting = asyncio.create_task(node.start(), name="weft-start")
    stopping = asyncio.create_task(asked.wait(), name="weft-stop")
    garbage: GarbageKeeper | None = None
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return None  # asked to stop before it served
        await starting
        give_back_freed_memory()  # RocksDB's buffer for what fills its log file ahead, most of all
        keep_freed_memory(NODE_KEPT_BYTES)
        garbage = GarbageKeeper()
        _remember(config, node)
        _say_ready(config, node)
        return await _until_end(node, stopping)
    finally:
        if garbage is not None:
            garbage.stop()
        await _end(starting)
        await _end(stopping)
        await node.stop()
        asked.leave()


async def _until_end(node: Node, stopping: asyncio.Task[None]) -> StorageError | None:
    failing = asyncio.create_task(node.wait_failed(), name="weft-failed")
    leaving = asyncio.create_task(node.wait_asked_to_leave(), name="weft-leave")
    try:
        await asyncio.wait((failing, stopping, leaving), return_when=asyncio.FIRST_COMPLETED)
        return failing.result() if failing.done() else None
    finally:
        await _end(failing)
        await _end(leaving)


async def _end(task: asyncio.Task[object]) -> None:
    """However it ends: the task that waits for its result has had it."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _remember(config: NodeConfig, node: Node) -> None:
    """So that the other commands just work. A node serves without that, too."""
    files = node.protection.client
    if files is None:
        return
    try:
        said = remember(contexts_path(os.environ), node.node_id, _near(node.grpc_address), files)
        files.first_key.kept()
    except UsageError as error:
        said = f"no context was written: {error}"
        if files.key is not None:
            said += f"; its key is in {files.first_key.file} until one is, at this node's next start"
    if said:
        err.print(escape(said), style="dim", soft_wrap=True)


def _near(listened: str) -> str:
    """The node's address on its own machine."""
    address = parse_address(listened)
    return str(Address("127.0.0.1", address.port)) if address.is_wildcard else listened


def _say_ready(config: NodeConfig, node: Node) -> None:
    if config.insecure:
        err.print(
            "[bold yellow]INSECURE[/]: plain text, no keys. Every program on this machine can read and publish "
            f"everything at {node.grpc_address}.",
            soft_wrap=True,
        )
    if node.console_url:
        key = "" if config.insecure else ", for holders of an API key (weft console)"
        err.print(escape(f"console at {node.console_url}{key}"), style="dim", soft_wrap=True)
    sys.stdout.write("ready\n")
    sys.stdout.flush()


class Asked:
    """The first signal asks; the second does not ask. The log is made for being killed."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def listen(self) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    def leave(self) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> None:
        await self._asked.wait()

    def _on_signal(self, number: int) -> None:
        if self._asked.is_set():
            os._exit(SIGNALLED + number)
        self._asked.set()
