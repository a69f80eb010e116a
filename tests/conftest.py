"""Traceability: which tests carry which requirement, and how they ended (read by tools/requirements.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

REPORT = Path(__file__).parent.parent / "build" / "requirements.json"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("req"):
            item.user_properties += [("req", requirement) for requirement in mark.args]


class Recorder:
    """Collects (requirement, test, outcome) as tests end; one process of an xdist run hears of all of them."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        for name, requirement in report.user_properties:
            if name == "req":
                self.outcomes.setdefault(str(requirement), {})[report.nodeid] = report.outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        yield
        if session.testscollected and not session.config.option.collectonly:
            REPORT.parent.mkdir(exist_ok=True)
            known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
            for requirement, tests in self.outcomes.items():
                known.setdefault(requirement, {}).update(tests)
            REPORT.write_text(json.dumps(known, indent=1, sort_keys=True))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())
