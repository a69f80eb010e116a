"""What all tests share: hypothesis without a clock, and the record of how each test ended.

The record is kept in build/ for tools/requirements.py, which joins it with the marks.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import gc
import inspect
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# A busy machine must not fail a test: examples may take as long as they take.
# The same examples in every run, so that a change is judged by what it changed; `make soak` looks for new ones.
IS_SOAK = os.environ.get("WEFT_SOAK") == "1"
settings.register_profile("weft", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not IS_SOAK)
settings.load_profile("weft")

# Some machines tell Python to keep no bytecode. Tests start hundreds of nodes, commands and workers of Spark: each
# would compile all of Weft again, for half a second of CPU.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nodes and logs sync their files thousands of times. Where there is memory enough, no test waits for a disk.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # so that it is looked for again

BUILD = Path(__file__).parent.parent / "build"

# The Javas of tests live for seconds: what the second compiler and a collector with threads would save later is never
# earned back. Half of what they do is loading Spark's classes, which `make test` has put into an archive: a Java that
# cannot use it says nothing and loads them. Set the variable to have other options.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # the last one: Weft keeps no archive of its own
JAVA_CLASSES = BUILD / "spark-classes.jsa"
if JAVA_CLASSES.exists():
    JAVA_OPTIONS += f' "-XX:SharedArchiveFile={JAVA_CLASSES}" -Xlog:cds=off -Xlog:cds+dynamic=off'
os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)

OUTCOMES = BUILD / "requirements.json"


class Recorder:
    """Collects test -> outcome as tests end, and adds what this run learned to what earlier runs did.

    The controlling process of an xdist run hears of every worker's tests, so only that one has a recorder.
    """

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Set-up and tear-down have something to say only when they did not pass; a failure is never taken back.
        if (report.when == "call" or not report.passed) and self.outcomes.get(report.nodeid) != "failed":
            self.outcomes[report.nodeid] = f"skipped: {reason_of(report)}" if report.skipped else report.outcome

    def pytest_sessionfinish(self) -> None:
        if self.outcomes:
            OUTCOMES.parent.mkdir(exist_ok=True)
            known = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
            fresh = OUTCOMES.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(known | self.outcomes, indent=1, sort_keys=True))
            fresh.replace(OUTCOMES)  # at once, because another run may be reading or ending just now


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped, in one line; an expected failure is skipped as well."""
    if isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    else:
        reason = f"expected to fail: {getattr(report, 'wasxfail', '')}"
    return " ".join(reason.split())


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import a thousand modules without looking for garbage again and again, which is half of the work, and never
    look through what they made afterwards: every collection during a test would."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


# --- tests that wait -------------------------------------------------------------------------------------------------

STORY_TIMEOUT_S = 480.0  # a bound, not an expectation: the machine may be busy


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run it on an event loop of its own, and not for ever."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(STORY_TIMEOUT_S):
                await test(*arguments, **fixtures)

        asyncio.run(bounded())

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """A test that waits is an ``async def``; each example of hypothesis has a loop of its own, too."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = awaited(pyfuncitem.obj)
    property_test = getattr(pyfuncitem.obj, "hypothesis", None)
    if property_test is not None and inspect.iscoroutinefunction(property_test.inner_test):
        property_test.inner_test = awaited(property_test.inner_test)


# --- one process for tests that share something costly -----------------------------------------------------------
#
# Tests that use the one Spark session carry ``xdist_group("spark")``; a mark of a test counts more than the mark of its
# file. xdist's own --dist loadgroup does not see such marks with pytest 9: it looks for them in node ids, which pytest
# no longer lets it change. So files are looked at.

ROOT = Path(__file__).parent.parent
GROUP = "xdist_group"
SHARED = 'scope="module"'  # a fixture of a whole file: made once if one process runs all of the file
# Fixtures of whole rooms that start nodes: their tests run in one process, or each process would start its own.
NODES = {"tests/cli/": ("node",), "tests/console/": ("place", "mesh")}
# Groups that take their process long, the longest first.
LONG = ("spark", "cluster", "drivers", "s3")
# Thousands of tests that take a millisecond: handing them out one by one would take longer than they do.
QUICK_ROOMS = ("tests/wire/", "tests/model/", "tests/routing/", "tests/membership/", "tests/core/")


@dataclass(frozen=True)
class Scopes:
    """What has to run, or had better run, in one process."""

    of_file: str | None
    of_tests: dict[str, str]  # by the name of a test function

    def of(self, nodeid: str) -> str | None:
        """None if the test may run anywhere."""
        name = nodeid.rpartition("::")[2].partition("[")[0]
        return self.of_tests.get(name, self.of_file)


def group_of(node: ast.AST) -> str | None:
    """The name in ``pytest.mark.xdist_group("name")`` somewhere below a node."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(attr=found), args=[ast.Constant(value=str(name))]) if found == GROUP:
                return name
    return None


@cache
def scopes_of(file: str) -> Scopes:
    text = (ROOT / file).read_text()
    of_file = file if SHARED in text or file.startswith(QUICK_ROOMS) else None
    of_tests: dict[str, str] = {}
    room, fixtures = next(((room, each) for room, each in NODES.items() if file.startswith(room)), ("", ()))
    for node in ast.parse(text).body if GROUP in text or fixtures else ():
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                of_file = group_of(value) or of_file
            case (
                ast.FunctionDef(name=name, args=arguments, decorator_list=marks)
                | ast.AsyncFunctionDef(name=name, args=arguments, decorator_list=marks)
            ):
                if any(each.arg in fixtures for each in arguments.args):
                    of_tests[name] = room
                for mark in marks:
                    if group := group_of(mark):
                        of_tests[name] = group
            case _:
                pass  # nothing else carries marks
    return Scopes(of_file, of_tests)


def scope_of(nodeid: str) -> str | None:
    return scopes_of(nodeid.partition("::")[0]).of(nodeid)


class Grouped(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Each test by itself, but those of a scope all together and in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid) or nodeid


@pytest.hookimpl(optionalhook=True)  # runs without xdist know no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped:
    return Grouped(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes one process long begins first, so that the others have something to do until its end."""

    def order(item: pytest.Item) -> tuple[int, int]:
        file = item.nodeid.partition("::")[0]
        scope = scope_of(item.nodeid)
        if scope is None or file.startswith(QUICK_ROOMS):
            return 2, 0
        return int(scope == file), LONG.index(scope) if scope in LONG else len(LONG)

    items.sort(key=order)
