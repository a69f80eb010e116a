"""Tests that wait have one form: each is an ``async def``, which tests/conftest.py runs on a loop of its own."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
RUNNERS = ("asyncio.run", "asyncio.Runner", "uvloop.run", "loop.run_until_complete")


def loops_of_their_own(source: str) -> Iterator[str]:
    """The tests of a file that run a loop themselves."""
    for test in ast.parse(source).body:
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            called = {ast.unparse(node.func) for node in ast.walk(test) if isinstance(node, ast.Call)}
            if called.intersection(RUNNERS):
                yield test.name


@pytest.mark.parametrize("room", sorted({file.relative_to(ROOT).parts[0] for file in ROOT.rglob("test_*.py")}))
def test_a_test_that_waits_is_an_async_function(room: str) -> None:
    place = ROOT / room
    files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
    found = [f"{file.relative_to(ROOT)}::{name}" for file in files for name in loops_of_their_own(file.read_text())]
    assert not found, "write `async def test_...`: tests/conftest.py gives it a loop, and a time-out"


def test_a_loop_of_its_own_is_found() -> None:
    source = """
def test_one():
    async def story(): ...
    asyncio.run(story())

async def test_other(): ...

def helper():
    asyncio.run(main())
"""
    assert list(loops_of_their_own(source)) == ["test_one"]


async def test_it_runs_on_a_loop_with_its_fixtures(tmp_path: Path) -> None:
    assert asyncio.get_running_loop().is_running()
    assert tmp_path.is_dir()
