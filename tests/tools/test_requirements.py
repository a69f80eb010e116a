"""The traceability tool on a small ledger: reading it, joining it with marks and outcomes, and the whole command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.requirements import (
    NOT_RUN,
    ROOT,
    Claim,
    Requirement,
    State,
    Unanswerable,
    describe_claims,
    join,
    judge,
    read_ledger,
    read_outcomes,
    summarise,
)

LEDGER = """\
# Ledger

| name | what |
|---|---|
| EMM | no id, so not a requirement |

## Doors

| id | requirement | ruling |
|---|---|---|
| DOR-01 | A door opens. | |
| DOR-02 | A door says `open \\| shut`. | Both words. |

## Windows

| id | requirement | ruling |
|---|---|---|
| WIN-01 | A window closes. | |
"""

TESTS = """\
import pytest

@pytest.mark.req("DOR-01")
@pytest.mark.parametrize("hand", ["left", "right"])
def test_opens(hand):
    pass

@pytest.mark.req("DOR-02", "WIN-01")
class TestWords:
    def test_words(self):
        pass
"""


def test_ledger_rows_are_read_with_their_heading_and_escaped_bars() -> None:
    assert read_ledger(LEDGER) == [
        Requirement("DOR-01", "Doors", "A door opens.", ""),
        Requirement("DOR-02", "Doors", r"A door says `open \| shut`.", "Both words."),
        Requirement("WIN-01", "Windows", "A window closes.", ""),
    ]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("| DOR-03 | no ruling cell |", "line 20: DOR-03 has 2 cells"),
        ("| DOR-03 | one | too | many |", "line 20: DOR-03 has 4 cells"),
        ("| DOR-01 | again | |", "line 20: DOR-01 occurs twice"),
    ],
)
def test_a_row_that_would_be_misread_is_an_error(row: str, complaint: str) -> None:
    with pytest.raises(Unanswerable, match=complaint):
        read_ledger(LEDGER + "\n" + row + "\n")


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([], State.OPEN),
        (["passed"], State.PROVEN),
        (["passed", "passed"], State.PROVEN),
        (["passed", "skipped"], State.UNPROVEN),
        (["passed", NOT_RUN], State.UNPROVEN),
        (["passed", "failed"], State.FAILING),
        (["skipped", "failed"], State.FAILING),
        (["skipped"], State.UNPROVEN),
        ([NOT_RUN, "skipped"], State.UNPROVEN),
    ],
)
def test_only_passes_prove_and_neither_a_failure_nor_a_skip_is_outvoted(outcomes: list[str], state: State) -> None:
    assert judge(outcomes, is_planned=False) is state
    planned = State.FAILING if state is State.FAILING else State.PLANNED
    assert judge(outcomes, is_planned=True) is planned


def test_what_is_planned_is_counted_apart() -> None:
    ledger = read_ledger(LEDGER.replace("A window closes. | |", "A window closes. | Planned. In winter. |"))
    report = join(ledger, {"t.py::a": ["DOR-01", "DOR-02"]}, {"t.py::a": "passed"})
    assert [line.state for line in report.lines] == [State.PROVEN, State.PROVEN, State.PLANNED]
    assert report.open_ids == []


def test_join_keeps_the_ledgers_order_and_drops_outcomes_of_tests_that_are_gone() -> None:
    marks = {"t.py::b": ["DOR-02", "DOR-02"], "t.py::a": ["DOR-02"], "t.py::c": ["DOR-01"]}
    outcomes = {"t.py::a": "passed", "t.py::c": "skipped: no hinges: none here", "t.py::renamed": "passed"}

    report = join(read_ledger(LEDGER), marks, outcomes)

    assert [(line.requirement.id, line.claims, line.state) for line in report.lines] == [
        ("DOR-01", [Claim("t.py::c", "skipped", "no hinges: none here")], State.UNPROVEN),
        ("DOR-02", [Claim("t.py::a", "passed"), Claim("t.py::b", NOT_RUN)], State.UNPROVEN),
        ("WIN-01", [], State.OPEN),
    ]
    assert report.open_ids == ["DOR-01", "DOR-02", "WIN-01"]
    assert report.unknown == {}
    assert summarise(report.lines) == {"Doors": {State.UNPROVEN: 2}, "Windows": {State.OPEN: 1}}


def test_ids_outside_the_ledger_are_named_with_their_tests() -> None:
    report = join(read_ledger(LEDGER), {"t.py::a": ["DOR-99"], "t.py::b": ["DOR-99", "WIN-01"]}, {})
    assert report.unknown == {"DOR-99": ["t.py::a", "t.py::b"]}


def test_parameters_are_counted_and_what_proves_nothing_is_named() -> None:
    claims = [
        Claim("tests/wire/test_a.py::test_x[a::b]", "passed"),
        Claim("tests/wire/test_a.py::test_x[c]", "skipped", "no nginx"),
        Claim("tests/wire/test_a.py::test_x[d]", NOT_RUN),
        Claim("tests/wire/test_a.py::test_y", "passed"),
        Claim("tests/wire/test_a.py::test_z", "failed"),
    ]
    assert describe_claims(claims) == [
        "wire/test_a.py::test_x x3 (1 not run, 1 skipped: no nginx)",
        "wire/test_a.py::test_y",
        "wire/test_a.py::test_z (1 failed)",
    ]


def test_outcomes_of_another_shape_are_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "requirements.json"
    assert read_outcomes(path) == {}
    path.write_text('{"DOR-01": {"t.py::a": "passed"}}')
    with pytest.raises(Unanswerable, match="remove it"):
        read_outcomes(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own with the ledger and the tests above, whose outcomes are recorded by our conftest."""
    for folder in ("docs", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['req(*ids): ids']\n")
    (tmp_path / "docs" / "requirements.md").write_text(LEDGER)
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "tests" / "test_doors.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they cost more than all the rest
    line = [sys.executable, *command]
    return subprocess.run(line, cwd=project, env=environment, capture_output=True, text=True, check=False)


def ask(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(project, str(ROOT / "tools" / "requirements.py"), "--root", str(project), *options)


def states(answer: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {line["requirement"]["id"]: line["state"] for line in json.loads(answer.stdout)["requirements"]}


def test_the_command_follows_test_runs(project: Path) -> None:
    before = ask(project, "--json", "--strict")
    assert before.returncode == 1
    assert states(before) == {"DOR-01": "unproven", "DOR-02": "unproven", "WIN-01": "unproven"}

    # Run in another process, so that the recorder is seen to hear of tests that it did not run itself.
    assert run(project, "-m", "pytest", "-p", "xdist", "-n", "1").returncode == 0
    proven = ask(project, "--strict")
    assert (proven.returncode, proven.stderr) == (0, "")
    assert "test_doors.py::test_opens x2" in proven.stdout

    tests = project / "tests" / "test_doors.py"
    tests.write_text(TESTS.replace("(self):\n        pass", "(self):\n        assert False"))
    assert run(project, "-m", "pytest", "-k", "words").returncode == 1
    failing = ask(project, "--json")
    assert failing.returncode == 0, "open requirements are an error only if asked for"
    assert states(failing) == {"DOR-01": "proven", "DOR-02": "failing", "WIN-01": "failing"}


def test_a_skipped_proof_is_open_and_says_why(project: Path) -> None:
    tests = project / "tests" / "test_doors.py"
    tests.write_text(
        TESTS.replace("    pass\n", "    if hand == 'left':\n        pytest.skip('no  left\\nhand here')\n", 1)
        .replace("    def test_words", "    @pytest.mark.xfail(reason='not yet')\n    def test_words")
        .replace("(self):\n        pass", "(self):\n        assert False")
    )
    assert run(project, "-m", "pytest").returncode == 0
    answer = ask(project, "--json", "--strict")
    assert answer.returncode == 1
    assert states(answer) == {"DOR-01": "unproven", "DOR-02": "unproven", "WIN-01": "unproven"}
    told = ask(project).stdout
    assert "DOR-01 lacks test_doors.py::test_opens (1 skipped: no left hand here)\n" in told
    assert "WIN-01 lacks test_doors.py::TestWords::test_words (1 skipped: expected to fail: not yet)\n" in told


def test_what_the_machine_lacks_may_be_excused_and_nothing_else(project: Path) -> None:
    def strict(text: str, *, then: str = "") -> int:
        """The status once these tests have run, and after that were replaced by others."""
        tests.write_text(text)
        run(project, "-m", "pytest")
        tests.write_text(then or text)
        assert ask(project, "--strict").returncode == 1
        return ask(project, "--strict", "--allow-skipped").returncode

    tests = project / "tests" / "test_doors.py"
    skipped = TESTS.replace("    pass\n", "    if hand == 'left':\n        pytest.skip('no left hand here')\n", 1)
    assert strict(skipped) == 0
    assert strict(skipped.replace("(self):\n        pass", "(self):\n        assert False")) == 1, "one failed"
    assert strict(skipped, then=skipped.replace("test_words", "test_other_words")) == 1, "one has not run"
    assert strict(skipped.replace("WIN-01", "DOR-02")) == 1, "nobody proves WIN-01"
    late = "    @pytest.mark.xfail(reason='not yet')\n    def test_words"
    expected = skipped.replace("    def test_words", late).replace(
        "(self):\n        pass", "(self):\n        assert False"
    )
    assert strict(expected) == 1, "it would fail anywhere"


def test_the_command_refuses_unknown_ids_and_tests_that_cannot_be_collected(project: Path) -> None:
    tests = project / "tests" / "test_doors.py"
    tests.write_text(TESTS.replace("WIN-01", "WIN-77"))
    unknown = ask(project)
    assert unknown.returncode == 2
    assert unknown.stderr == "unknown requirement 'WIN-77', carried by tests/test_doors.py::TestWords::test_words\n"

    tests.write_text("import pytest\npytest.skip('no hands', allow_module_level=True)\n" + TESTS)
    hidden = ask(project)
    assert hidden.returncode == 2
    assert "test_doors.py: a file must not skip itself as a whole" in hidden.stderr

    tests.write_text("import nowhere_to_be_found\n")
    broken = ask(project)
    assert broken.returncode == 2
    assert "nowhere_to_be_found" in broken.stderr


def test_our_own_ledger_can_be_read() -> None:
    ledger = read_ledger((ROOT / "docs" / "requirements.md").read_text())
    groups = {"EMM", "EMM-C", "EXMP", "Coaty", "Mesh", "Spark", "Consumers", "Lake", "Seeing"}
    assert {requirement.group for requirement in ledger} == groups
    assert all(requirement.text for requirement in ledger), "every line says what is required"
