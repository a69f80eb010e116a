"""Which tests prove which requirement: docs/requirements.md joined with the tests' marks and their last outcomes.

Run by ``make requirements``. The ledger says what must hold, ``@pytest.mark.req`` says which tests claim it, and
build/requirements.json (written by tests/conftest.py) says how those tests ended. A requirement is proven if every test
that claims it has passed: one that was skipped may be the very one that matters. A line whose ruling begins with
``Planned.`` is not due yet, and is counted apart.

Exit status: 0; 1 with ``--strict`` when a requirement that is due is not proven; 2 when the question cannot be
answered, because a mark names an unknown id, tests cannot be collected, or a file is not what it should be.
``--allow-skipped`` is for machines that lack programs: what skipped tests alone leave open is told, and is no failure.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH_MIN = 120  # test names do not fit into the 80 columns that rich assumes for a pipe
NOT_RUN = "not run"
EXPECTED_TO_FAIL = "expected to fail"  # as tests/conftest.py says it
PLANNED = "Planned."

ID = re.compile(r"[A-Z]+-[0-9]{2}")
CELL_END = re.compile(r"(?<!\\)\|")


class Unanswerable(Exception):
    """The inputs do not allow an answer; the message says which and why."""


# --- the ledger ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of the ledger; ``group`` is the heading above it."""

    id: str
    group: str
    text: str
    ruling: str

    @property
    def is_planned(self) -> bool:
        return self.ruling.startswith(PLANNED)


def read_ledger(markdown: str) -> list[Requirement]:
    """The rows ``| id | requirement | ruling |`` of every table; other tables and prose are passed over."""
    ledger: dict[str, Requirement] = {}
    group = ""
    for number, line in enumerate(markdown.splitlines(), start=1):
        if line.startswith("## "):
            group = line.removeprefix("## ").strip()
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in CELL_END.split(line.rstrip())[1:-1]]
        if not cells or not ID.fullmatch(cells[0]):
            continue
        if len(cells) != 3:
            raise Unanswerable(f"ledger line {number}: {cells[0]} has {len(cells)} cells, not id, requirement, ruling")
        if cells[0] in ledger:
            raise Unanswerable(f"ledger line {number}: {cells[0]} occurs twice")
        ledger[cells[0]] = Requirement(cells[0], group, cells[1], cells[2])
    return list(ledger.values())


# --- the join ------------------------------------------------------------------------------------------------------


class State(StrEnum):
    """What the tests say about a requirement. FAILING, UNPROVEN and OPEN count as open."""

    PROVEN = "proven"  # all tests for it passed
    FAILING = "failing"  # a test for it failed; that others passed does not make up for it
    UNPROVEN = "unproven"  # some of its tests were skipped or have not run, and nobody knows what they would have said
    OPEN = "open"  # no test names it
    PLANNED = "planned"  # the ledger says so, and no test for it fails


@dataclass(frozen=True, slots=True)
class Claim:
    """A test that carries the requirement's id, and how it ended: passed, failed, skipped or not run; if it was
    skipped, why."""

    test: str
    outcome: str
    reason: str = ""

    @property
    def is_excused(self) -> bool:
        """Skipped because the machine lacks something; a test that is expected to fail would fail on any."""
        return self.outcome == "skipped" and not self.reason.startswith(EXPECTED_TO_FAIL)


@dataclass(frozen=True, slots=True)
class Line:
    """A requirement and all that speaks for it."""

    requirement: Requirement
    claims: list[Claim]
    state: State

    @property
    def is_open(self) -> bool:
        return self.state not in (State.PROVEN, State.PLANNED)

    @property
    def is_excused(self) -> bool:
        """Whether skipped tests are all that is missing."""
        return self.state is State.UNPROVEN and all(each.outcome == "passed" or each.is_excused for each in self.claims)


@dataclass(frozen=True, slots=True)
class Report:
    """The answer. ``unknown`` maps ids that are not in the ledger to the tests that carry them."""

    lines: list[Line]
    unknown: dict[str, list[str]] = field(default_factory=dict)

    @property
    def open_ids(self) -> list[str]:
        return [line.requirement.id for line in self.lines if line.is_open]

    def fails(self, *, allow_skipped: bool) -> bool:
        """Whether something is open that ``--strict`` does not let pass."""
        return any(line.is_open and not (allow_skipped and line.is_excused) for line in self.lines)


def judge(outcomes: Iterable[str], is_planned: bool) -> State:
    """What tests that ended like this amount to."""
    seen = set(outcomes)
    if "failed" in seen:
        return State.FAILING
    if is_planned:
        return State.PLANNED
    if not seen:
        return State.OPEN
    return State.PROVEN if seen == {"passed"} else State.UNPROVEN


def claim(test: str, recorded: str) -> Claim:
    outcome, _, reason = recorded.partition(": ")
    return Claim(test, outcome, reason)


def join(ledger: Iterable[Requirement], marks: Mapping[str, Iterable[str]], outcomes: Mapping[str, str]) -> Report:
    """Join ``marks`` (test -> ids) with ``outcomes`` (test -> outcome); outcomes of tests that are gone fall away."""
    claims: dict[str, list[Claim]] = {}
    for test in sorted(marks):
        for requirement_id in sorted(set(marks[test])):
            claims.setdefault(requirement_id, []).append(claim(test, outcomes.get(test, NOT_RUN)))
    lines = []
    for requirement in ledger:
        found = claims.pop(requirement.id, [])
        state = judge((each.outcome for each in found), requirement.is_planned)
        lines.append(Line(requirement, found, state))
    return Report(lines, unknown={key: [each.test for each in claims[key]] for key in sorted(claims)})


# --- the inputs ----------------------------------------------------------------------------------------------------


class Collector:
    """A pytest plugin that notes each test's ids, and what kept a file from being collected."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}
        self.errors: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("req"):
                # A mark without ids would claim nothing and look as if it did: the empty id is not in any ledger.
                self.marks.setdefault(item.nodeid, []).extend(map(str, mark.args or ("",)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # it would hide what its tests claim, and that they were not run
            self.errors.append(f"{report.nodeid}: a file must not skip itself as a whole; its tests may, by a mark")
        elif report.failed:
            self.errors.append(f"{report.nodeid}\n{report.longreprtext}")


def collect_marks(root: Path) -> dict[str, list[str]]:
    """Test -> the ids it carries, as pytest sees them: classes, modules and parameters may be marked, too."""
    collector = Collector()
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        # Nothing is run, so assertions need not be rewritten: that halves the time.
        options = ["--collect-only", "--assert=plain", "-p", "no:cacheprovider"]
        status = pytest.main([*options, str(root / "tests")], plugins=[collector])
    if collector.errors:
        raise Unanswerable("tests cannot be collected:\n" + "\n".join(collector.errors))
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise Unanswerable("pytest could not collect the tests:\n" + output.getvalue())
    return collector.marks


def read_outcomes(path: Path) -> dict[str, str]:
    """Test -> outcome of the last run; nothing if there was none yet."""
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Unanswerable(f"{path} is not what tests/conftest.py writes, remove it: {error}") from error


# --- the answer ----------------------------------------------------------------------------------------------------

STYLES = {
    State.PROVEN: "green",
    State.FAILING: "red",
    State.UNPROVEN: "yellow",
    State.OPEN: "magenta",
    State.PLANNED: "dim",
}


def describe_claims(claims: Iterable[Claim]) -> list[str]:
    """One line per test function: its parameters are counted, and outcomes that prove nothing are named, with
    reasons."""
    functions: dict[str, Counter[str]] = {}
    for each in claims:
        name = each.test.split("[", 1)[0].removeprefix("tests/")
        outcome = f"{each.outcome}: {each.reason}" if each.reason else each.outcome
        functions.setdefault(name, Counter())[outcome] += 1
    lines = []
    for name, counts in functions.items():
        times = f" x{counts.total()}" if counts.total() > 1 else ""
        others = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()) if outcome != "passed")
        lines.append(f"{name}{times}" + (f" ({others})" if others else ""))
    return lines


def summarise(lines: Iterable[Line]) -> dict[str, Counter[State]]:
    """Group -> how many of its requirements are in which state, in the ledger's order."""
    groups: dict[str, Counter[State]] = {}
    for line in lines:
        groups.setdefault(line.requirement.group, Counter())[line.state] += 1
    return groups


def print_report(report: Report, console: Console) -> None:
    table = Table("id", "state", "tests", title="Requirements and the tests that prove them", title_justify="left")
    for line in report.lines:
        state = Text(line.state, style=STYLES[line.state])
        table.add_row(line.requirement.id, state, Text("\n".join(describe_claims(line.claims))))
    console.print(table)

    summary = Table("group", *(Column(state, style=STYLES[state], justify="right") for state in State), "all")
    groups = summarise(report.lines)
    total = sum(groups.values(), Counter[State]())
    for name, counts in groups.items():
        summary.add_row(name, *(str(counts[state]) for state in State), str(counts.total()))
    summary.add_section()
    summary.add_row("total", *(str(total[state]) for state in State), str(total.total()))
    console.print(summary)
    for line in report.lines:
        for text in describe_claims(each for each in line.claims if each.outcome == "skipped"):
            console.print(Text(f"{line.requirement.id} lacks {text}"), soft_wrap=True)
    if report.open_ids:
        console.print(Text("Not proven: " + " ".join(report.open_ids)))


def report_json(report: Report) -> str:
    groups = {name: {state: counts[state] for state in State} for name, counts in summarise(report.lines).items()}
    whole = {"requirements": report.lines, "groups": groups, "open": report.open_ids, "unknown": report.unknown}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="requirements", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="exit status 1 when one that is due is not proven")
    parser.add_argument("--allow-skipped", action="store_true", help="with --strict: but what skipped tests leave open")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project to look at (default: this one)")
    options = parser.parse_args(arguments)
    root: Path = options.root
    try:
        ledger = read_ledger((root / "docs" / "requirements.md").read_text())
        report = join(ledger, collect_marks(root), read_outcomes(root / "build" / "requirements.json"))
    except Unanswerable as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(report_json(report))
    else:
        console = Console()
        print_report(report, console if console.width >= WIDTH_MIN else Console(width=WIDTH_MIN))
    for requirement_id, tests in report.unknown.items():
        print(f"unknown requirement {requirement_id!r}, carried by {', '.join(tests)}", file=sys.stderr)
    if report.unknown:
        return 2
    return 1 if options.strict and report.fails(allow_skipped=options.allow_skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
