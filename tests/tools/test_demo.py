"""``make demo`` ends well; it stops with an error if anything it shows is not so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_demo_runs_to_its_end() -> None:
    demo = Path(__file__).parents[2] / "tools" / "demo.py"
    done = subprocess.run([sys.executable, str(demo)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    shown = ("verified", "replay", "bad-hmac", "length-mismatch", "1,000 events", "matches", "rejected: truncated")
    assert [words for words in shown if words not in done.stdout] == []
