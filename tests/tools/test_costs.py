"""What tests cost is added up by room, and what this process and its children use is seen."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.conftest import scope_of
from tests.costs import cpu_s
from tools.costs import Cost, costs_by

LINES = [
    json.dumps({"test": test, "wall_s": wall_s, "cpu_s": cpu_s})
    for test, wall_s, cpu_s in (
        ("tests/log/test_a.py::test_x[1]", 1.0, 0.5),
        ("tests/log/parts/test_b.py::test_y", 2.0, 0.25),
        ("tests/cli/test_c.py::test_z", 4.0, 3.0),
    )
]


def test_costs_are_added_up_by_room_dearest_first() -> None:
    assert list(costs_by(LINES, "room").items()) == [("cli", Cost(1, 4.0, 3.0)), ("log", Cost(2, 3.0, 0.75))]
    assert list(costs_by(LINES, "test")) == [json.loads(LINES[number])["test"] for number in (2, 0, 1)]


def test_work_of_a_child_that_has_ended_counts() -> None:
    before_s = cpu_s()
    program = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert cpu_s() - before_s >= 0.25


def test_the_mark_of_a_test_counts_more_than_that_of_its_file() -> None:
    file = "tests/pipelines/test_archive.py"
    assert scope_of(f"{file}::test_the_table_is_the_log_row_by_row") == "spark"
    killed = "test_a_driver_that_is_killed_again_and_again_leaves_every_event_once[delta-directory]"
    assert scope_of(f"{file}::{killed}") == "drivers"
    assert scope_of("tests/node/test_figures.py::test_x") is None
