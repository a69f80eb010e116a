"""Many seeds of trouble, after which everything that was promised has to be true.

A failure names its seed; ``tools/sim.py --seed N --trace`` replays it.
"""

from __future__ import annotations

import os

import pytest

from weft.testing.sim import run

SEEDS = 200 if os.environ.get("WEFT_SOAK") else 60  # `make sim` runs ten thousand
CHUNK = 10  # of seeds in one test, so that workers can share them


@pytest.mark.req(
    "MSH-01", "MSH-02", "MSH-03", "MSH-05", "PL-01", "PL-02", "PL-03", "PL-04", "NFR-02", "CON-05", "CON-03"
)
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept_whatever_happens(first: int) -> None:
    """Receipts are durable, subscribers get everything in order and once, views agree, groups share what there is,
    buckets have the same value everywhere, and what is due comes once and never early."""
    for seed in range(first, first + CHUNK):
        run(seed)


def test_a_large_mesh_keeps_its_promises() -> None:
    """More than eight nodes; ``make sim`` runs hundreds of these."""
    run(1, large=True)
