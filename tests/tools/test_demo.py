"""``make demo`` ends well; it stops with an error if anything it shows is not so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_demo_runs_to_its_end() -> None:
    command = [sys.executable, "-m", "tools.demo"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stderr
    shown = (
        "each once and in order",
        "verified",
        "replay",
        "bad-hmac",
        "length-mismatch",
        "1,000 events",
        "matches",
        "rejected: truncated",
        "100  emm.plant.line1.temp",
        "5  weft.quarantine.emm",
        "archive 300 rows",
    )
    assert [words for words in shown if words not in done.stdout] == []
