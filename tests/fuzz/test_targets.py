"""Every fuzz target on its seeds and a few hundred mutations, so that none rots between runs of ``make fuzz``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.fuzzing.mutator import inputs
from tools.fuzzing.targets import Target, load_targets

MUTATIONS = 300

TARGETS = load_targets(Path(__file__).parent)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_target_takes_damaged_inputs(target: Target) -> None:
    assert target.seeds, "without a valid input to start from, mutations do not get past the first check"
    for data in inputs(target.seeds, target.name, len(target.seeds) + MUTATIONS):
        try:
            target.run(data)
        except BaseException as error:
            error.add_note(f"input: {data.hex()}")
            raise
