"""The simulation finds what it has to find: every planted bug, within the seeds that every test run goes through."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.sim.mutants import MUTANTS, planted
from tests.sim.test_seeds import SEEDS
from weft.testing.sim import Violation, run

# Where they were found last. Should the core or the mix of faults change, the others are looked through.
LAST_SEEN = (0, 1, 4, 5, 6, 7, 12, 14, 28, 43, 60, 64, 86, 118, 200, 321)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant: type) -> None:
    for seed in (*LAST_SEEN, *range(SEEDS)):
        try:
            with planted(mutant):
                run(seed)
        except Violation:
            return
    pytest.fail(f"{mutant.__name__} went unnoticed in {SEEDS} seeds")


def test_a_log_that_does_not_keep_the_pieces_of_a_gathered_batch_is_found() -> None:
    """Only a crash between sync and receipt shows it: then a batch that is sent again is not recognised."""
    with mock.patch("weft.log.log.pack_pieces", lambda batches: b""):
        for seed in (7, *range(SEEDS)):
            try:
                run(seed)
            except Violation:
                return
    pytest.fail(f"it went unnoticed in {SEEDS} seeds")
