"""The simulation finds what it has to find: every planted bug, within the seeds that every test run goes through."""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS, planted
from tests.sim.test_seeds import SEEDS
from weft.testing.sim import Violation, run

# Where they were found last. Should the core or the mix of faults change, the others are looked through.
LAST_SEEN = (0, 1, 4, 5, 6, 7, 28, 43, 64, 86)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found(mutant: type) -> None:
    for seed in (*LAST_SEEN, *range(SEEDS)):
        try:
            with planted(mutant):
                run(seed)
        except Violation:
            return
    pytest.fail(f"{mutant.__name__} went unnoticed in {SEEDS} seeds")
