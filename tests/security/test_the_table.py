"""The table of who can do what (docs/security.md) names tests that exist and prove it, and all attacks are in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from weft.wire.mesh import mesh_pb2 as pb

ROOT: Final = Path(__file__).parents[2]
ATTACKS: Final = ROOT / "tests" / "security" / "attacks"
PAGE: Final = (ROOT / "docs" / "security.md").read_text()
ROW: Final = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
MARK: Final = re.compile(r'req\([^)]*"SEC-0\d"')


def rows() -> list[tuple[str, ...]]:
    section = PAGE.split("## Who can do what", 1)[1].split("\n## ", 1)[0]
    found = [match.groups() for match in ROW.finditer(section)]
    assert found[0] == ("who", "can", "cannot", "tried in")
    return [row for row in found[1:] if not row[0].startswith("---")]


def files_of(row: tuple[str, ...]) -> list[Path]:
    """Of the last column: files of the attacks by their name, others by their path."""
    names = re.findall(r"`([^`]+)`", row[3])
    return [ROOT / name if "/" in name else ATTACKS / f"{name}.py" for name in names]


@pytest.mark.req("SEC-03", "SEC-04", "SEC-05", "SEC-06", "SEC-07")
@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_every_row_names_tests_that_are_there_and_marked(row: tuple[str, ...]) -> None:
    who, can, cannot, _ = row
    assert who and can and cannot
    files = files_of(row)
    assert files, "nobody tries it"
    for file in files:
        assert file.is_file(), f"{file} is not there"
        assert MARK.search(file.read_text()), f"{file} proves nothing of security"


def test_every_attack_is_in_the_table() -> None:
    named = {file for row in rows() for file in files_of(row)}
    assert sorted(set(ATTACKS.glob("test_*.py")) - named) == []


@pytest.mark.req("SEC-02")
def test_the_page_says_for_every_call_what_it_needs() -> None:
    section = PAGE.split("| call | needs |", 1)[1].split("\n\n", 1)[0]
    named = [
        name for calls, _ in re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE) for name in calls.split(", ")
    ]
    services = (pb.DESCRIPTOR.services_by_name[name] for name in ("Mesh", "Admin"))
    assert sorted(named) == sorted(method.name for service in services for method in service.methods)


@pytest.mark.parametrize("folder", ["src", "tools", "bench"])
def test_exceptions_of_the_security_rules_say_why(folder: str) -> None:
    """Of tests, pyproject.toml says it for all of them."""
    bare = re.compile(r"# noqa: (?:[A-Z]+\d+, )*S\d{3}(?:, [A-Z]+\d+)*[ \t]*$", re.MULTILINE)
    unexplained = [
        f"{file.relative_to(ROOT)}: {found.group()}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for found in bare.finditer(file.read_text())
    ]
    assert unexplained == []
