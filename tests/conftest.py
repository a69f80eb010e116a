"""What all tests share: hypothesis without a clock, and the record of how each test ended.

The record is kept in build/ for tools/requirements.py, which joins it with the marks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: examples may take as long as they take.
settings.register_profile("weft", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")

OUTCOMES = Path(__file__).parent.parent / "build" / "requirements.json"


class Recorder:
    """Collects test -> outcome as tests end, and adds what this run learned to what earlier runs did.

    The controlling process of an xdist run hears of every worker's tests, so only that one has a recorder.
    """

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Set-up and tear-down have something to say only when they did not pass; a failure is never taken back.
        if (report.when == "call" or not report.passed) and self.outcomes.get(report.nodeid) != "failed":
            self.outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        if self.outcomes:
            OUTCOMES.parent.mkdir(exist_ok=True)
            known = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
            fresh = OUTCOMES.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(known | self.outcomes, indent=1, sort_keys=True))
            fresh.replace(OUTCOMES)  # at once, because another run may be reading or ending just now


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())
