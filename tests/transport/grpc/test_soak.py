"""A few seconds of the soak in every run; an hour with WEFT_SOAK=1, with a seed of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

IS_SOAK = "WEFT_SOAK" in os.environ
SECONDS = 3600.0 if IS_SOAK else 3.0


def test_nothing_is_left_of_calls_that_end_in_every_way() -> None:
    """In a process of its own: that of the tests has the memory of all the others, which comes and goes."""
    seed = int(time.time()) if IS_SOAK else 7
    command = [sys.executable, "-m", "tests.transport.grpc.soak", "--seconds", str(SECONDS), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert told["grpcio calls"] > 10
    assert told["done"]["ask"] > 10
