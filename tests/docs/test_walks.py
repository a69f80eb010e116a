"""The walks of ARCHITECTURE.md name functions that are there, and that really run in that order."""

from __future__ import annotations

import ast
import asyncio
import re
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import pytest

import weft
from tests.gateway.emm.stories import now_s, site
from tests.gateway.exmp.joined import joined
from tests.node.running import running_node
from weft.testing import mesh
from weft.wire import emm

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "weft"
HEADING = re.compile(r"^### (.+)$", re.MULTILINE)
STEP = re.compile(r"`([\w/]+\.py):([\w.]+)`")
PATIENCE_S = 60.0  # of a test; nothing takes nearly as long


@cache
def walks() -> dict[str, list[tuple[str, str]]]:
    """Steps, as file and function, of each walk."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("\n## Walks\n", 1)[1].split("\n## ", 1)[0]
    _, *parts = HEADING.split(section)
    return {name: STEP.findall(steps) for name, steps in zip(parts[::2], parts[1::2], strict=True)}


@cache
def functions(file: str) -> frozenset[str]:
    """Functions of a file, and methods as ``Class.method``."""

    def found(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name
            elif isinstance(node, ast.ClassDef):
                yield from found(node.body, f"{prefix}{node.name}.")

    return frozenset(found(ast.parse((SOURCE / file).read_text()).body, ""))


@pytest.mark.parametrize("name", walks())
def test_a_walk_names_functions_that_are_there(name: str) -> None:
    steps = walks()[name]
    assert len(steps) >= 5, "a walk is more than its ends"
    assert not [f"{file}:{function}" for file, function in steps if function not in functions(file)]


class Track:
    """The functions of Weft that were entered, in order, while it was ``on``."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        files: dict[str, str] = {}

        def entered(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                path = frame.f_code.co_filename
                file = files.get(path)
                if file is None:
                    inside = Path(path).is_relative_to(SOURCE)
                    file = files[path] = Path(path).relative_to(SOURCE).as_posix() if inside else ""
                if file:
                    self.steps.append((file, frame.f_code.co_qualname))

        sys.setprofile(entered)
        try:
            yield
        finally:
            sys.setprofile(None)

    def missing(self, walk: list[tuple[str, str]]) -> str:
        """The first step of a walk that was not taken after the one before it."""
        taken = iter(self.steps)
        return next((f"{file}:{function}" for file, function in walk if (file, function) not in taken), "")


async def _publish(track: Track) -> None:
    async with mesh(nodes=1) as it, it.client("n0") as client:
        await client.publish("plant.line1.temp", "21.5")  # the stream stands
        with track.on():
            await client.publish("plant.line1.temp", "21.6")


async def _two_hops(track: Track) -> None:
    async with (
        mesh(nodes=3, links="chain") as it,
        it.client("n0") as plant,
        it.client("n2") as office,
        office.subscribe("plant.>") as readings,
    ):
        await readings.opened()
        await it.settled()
        await plant.publish("plant.line1.temp", "21.5")
        await anext(aiter(readings))
        with track.on():
            await plant.publish("plant.line1.temp", "21.6")
            await anext(aiter(readings))


async def _datagram(track: Track) -> None:
    async with _directory() as data, site(data, gateway__emm__unsigned=True) as it:
        packet = emm.build(emm.draft_event(secrets.randbits(32), now_s(), "line1.temp", 21))
        with track.on():
            it.device().send(packet)
            await it.events("emm.>", 1)


async def _request(track: Track) -> None:
    async with _directory() as data, joined(data) as (_, client):
        with track.on():
            await client.call("publish", {"topic": "plant.line1.temp", "payload": "21.5"})


async def _start_and_end(track: Track) -> None:
    async with _directory() as data:
        with track.on():
            async with running_node(data) as node, weft.connect(node.grpc_address, insecure=True) as client:
                await client.publish("plant.line1.temp", "21.5")


@asynccontextmanager
async def _directory() -> AsyncIterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made) / "a"


# A micro-batch runs in processes of Spark's: of that walk only the names are checked.
STORIES: dict[str, Callable[[Track], Awaitable[None]]] = {
    "Publish to receipt": _publish,
    "An event to a subscriber two hops away": _two_hops,
    "A datagram to its topic": _datagram,
    "An EXMP request": _request,
    "A node's start and end": _start_and_end,
}


@pytest.mark.parametrize("name", STORIES)
async def test_a_walk_is_what_runs(name: str) -> None:
    track = Track()

    async with asyncio.timeout(PATIENCE_S):
        await STORIES[name](track)
    assert not track.missing(walks()[name])
