"""A secured mesh of three nodes, as users start it: a has the CA, b and c enrol there and know a's keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.console.signing import Place
from tests.node.secured import token_from
from tests.transport.held_port import held_port
from tests.up import END_TIMEOUT_S, RunningNode, up
from weft.security.key_store import FILE as KEYS


class ThreeNodes:
    """``place`` is node a. ``kill`` and ``start`` are for the others, which come back at the same addresses."""

    def __init__(self, place: Place, others: dict[str, Callable[[], AbstractContextManager[RunningNode]]]) -> None:
        self.place = place
        self._others = others
        self._running: dict[str, tuple[ExitStack, RunningNode]] = {}

    def start(self, name: str) -> RunningNode:
        stack = ExitStack()
        node = stack.enter_context(self._others[name]())
        self._running[name] = (stack, node)
        return node

    def node(self, name: str) -> RunningNode:
        return self.place.node if name == "a" else self._running[name][1]

    def kill(self, name: str) -> None:
        """As a power cut would."""
        stack, node = self._running.pop(name)
        node.process.kill()
        node.process.wait(END_TIMEOUT_S)
        stack.close()

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)


@contextmanager
def three_nodes(directory: Path, few: Callable[[Path], str]) -> Iterator[ThreeNodes]:
    """``few`` makes the key with few rights, once a has its data directory."""
    first = directory / "a"
    with ExitStack() as stack:
        a = stack.enter_context(up(first, "--node-id", "a", "--ca-listen", "127.0.0.1:0"))
        token = a.context.token
        assert token is not None
        place = Place(a, first, token, few(first))
        others = {name: _starter(directory, name, a, stack.enter_context(held_port())) for name in ("b", "c")}
        mesh = ThreeNodes(place, others)
        stack.callback(mesh.close)
        for name in others:
            mesh.start(name)
        yield mesh


def _starter(
    directory: Path, name: str, first: RunningNode, port: int
) -> Callable[[], AbstractContextManager[RunningNode]]:
    data = directory / name
    data.mkdir(mode=0o700)
    shutil.copy2(directory / "a" / KEYS, data / KEYS)
    token = token_from(directory / "a", name)
    flags = ("--node-id", name, "--listen", f"127.0.0.1:{port}", "--peer", first.grpc)
    joining = ("--ca", f"https://{first.ready['ca']}", "--token", "-")

    def start() -> AbstractContextManager[RunningNode]:
        fresh = not (data / "tls").exists()
        return up(data, *flags, *(joining if fresh else ()), stdin=token if fresh else "")

    return start
