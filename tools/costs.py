"""What the tests cost, room by room: adds up what `pytest -p tests.costs` wrote (`make test-costs`)."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

COSTS = Path(__file__).parent.parent / "build" / "costs"


@dataclass(slots=True)
class Cost:
    tests: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, wall_s: float, cpu_s: float) -> None:
        self.tests += 1
        self.wall_s += wall_s
        self.cpu_s += cpu_s


def name_of(test: str, depth: str) -> str:
    """The room, the file or the test itself: `tests/log/test_crash.py::test_x` is in the room `log`."""
    file = test.partition("::")[0]
    if depth == "room":
        return file.removeprefix("tests/").partition("/")[0]
    return file if depth == "file" else test


def costs_by(lines: list[str], depth: str) -> dict[str, Cost]:
    """The costs of all tests, added up by room, by file or not at all; dearest first."""
    found: defaultdict[str, Cost] = defaultdict(Cost)
    for line in lines:
        entry = json.loads(line)
        found[name_of(entry["test"], depth)].add(entry["wall_s"], entry["cpu_s"])
    return dict(sorted(found.items(), key=lambda item: -item[1].cpu_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=["room", "file", "test"], default="room")
    parser.add_argument("--most", type=int, default=40, help="how many lines to print")
    parser.add_argument("--wall", action="store_true", help="order by wall time, not by CPU")
    parser.add_argument("--under", default="", help="only tests whose file begins so, as tests/spark")
    args = parser.parse_args()
    lines = [line for file in sorted(COSTS.glob("*.jsonl")) for line in file.read_text().splitlines()]
    costs = costs_by([line for line in lines if json.loads(line)["test"].startswith(args.under)], args.by)
    if args.wall:
        costs = dict(sorted(costs.items(), key=lambda item: -item[1].wall_s))
    total = Cost()
    for cost in costs.values():
        total.tests, total.wall_s, total.cpu_s = (
            total.tests + cost.tests,
            total.wall_s + cost.wall_s,
            total.cpu_s + cost.cpu_s,
        )
    print(f"{'wall s':>8} {'CPU s':>8} {'tests':>6}")
    for name, cost in [("all", total), *list(costs.items())[: args.most]]:
        print(f"{cost.wall_s:8.1f} {cost.cpu_s:8.1f} {cost.tests:6}  {name}")


if __name__ == "__main__":
    main()
