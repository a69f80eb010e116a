"""A few seconds of the soak in every run; an hour with WEFT_SOAK=1, with a seed of its own."""

from __future__ import annotations

import os
import time

from tests.transport.grpc.soak import run

IS_SOAK = "WEFT_SOAK" in os.environ
SECONDS = 3600.0 if IS_SOAK else 3.0


def test_nothing_is_left_of_calls_that_end_in_every_way() -> None:
    told = run(SECONDS, int(time.time()) if IS_SOAK else 7)
    assert told["grpcio calls"] > 10
    assert told["done"]["ask"] > 10
