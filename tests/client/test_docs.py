"""The examples of docs/sdk.md run as they stand, and its table of settings is complete."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from tests.client.fake import FakeNode
from weft.client import Options

WAIT_S = 60.0
PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()
EXAMPLES = [
    pytest.param(code, id=heading)
    for heading, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL)
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") >= 8


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code: str) -> None:
    """The node has a thread of its own, so that blocking examples can wait for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> FakeNode:
        made = FakeNode()
        await made.start()
        return made

    node = asyncio.run_coroutine_threadsafe(start(), loop).result(WAIT_S)
    names: dict[str, object] = {}
    try:
        exec(compile(code, "docs/sdk.md", "exec"), names)
        main = names["main"]
        assert callable(main)
        outcome = main([node.address])
        if inspect.iscoroutine(outcome):
            asyncio.run(asyncio.wait_for(outcome, WAIT_S))
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def test_every_setting_is_explained_with_its_default() -> None:
    told: dict[str, float] = {}
    for names, values in re.findall(r"^\| (`.+?`) \| (.+?) \|", PAGE, re.MULTILINE):
        for name, value in zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True):
            number, *unit = value.split()
            told[name] = float(number) * (1 << 20 if unit == ["MiB"] else 1)
    assert told == {field.name: field.default for field in fields(Options)}
