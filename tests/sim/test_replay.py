"""A seed has one course of events: in this process, in another one, and whatever the order of sets is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutants import AcksBeforeSync, planted
from weft.testing.sim import Violation, run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", [13, 58])
def test_a_seed_replays_exactly(seed: int) -> None:
    one, other = (run(seed, traces=True) for _ in range(2))
    assert one.schedule.trace.checksum
    assert one.schedule.trace.checksum == other.schedule.trace.checksum
    assert (one.schedule.now_s, one.schedule.steps) == (other.schedule.now_s, other.schedule.steps)


def test_the_trace_changes_nothing() -> None:
    traced, silent = run(13, traces=True), run(13)
    assert (traced.schedule.now_s, traced.schedule.steps) == (silent.schedule.now_s, silent.schedule.steps)


@pytest.mark.parametrize("seed", [13, 45])
def test_nothing_depends_on_the_order_of_sets(seed: int) -> None:
    """Python draws a new order of strings for every process."""
    told = {_replay_elsewhere(seed, hash_seed) for hash_seed in ("1", "2", "3")}
    assert len(told) == 1
    assert f"seed {seed}: all promises kept" in told.pop()


def _replay_elsewhere(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "tools/sim.py", "--seed", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_failing_seed_names_itself_and_fails_again_at_the_same_point() -> None:
    failures: list[tuple[int, str, str]] = []
    for _ in range(2):
        for seed in range(20):
            try:
                with planted(AcksBeforeSync):
                    run(seed)
            except Violation as violation:
                failures.append((seed, str(violation), violation.__notes__[0]))
                break
    assert len(failures) == 2
    assert failures[0] == failures[1]
    assert f"seed {failures[0][0]} at " in failures[0][2]
