"""What ``weft doctor`` looks at: the machine, the node's files, its certificates, its neighbours, its log (OPS-02).

Every check answers with findings: what was found, how bad it is, and what to do. Judging is separate from looking: the
``judge_`` functions take numbers, so that tests need no broken machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from weft.errors import WeftError
from weft.node.config import NodeConfig


class Verdict(StrEnum):
    """How bad it is. Scripts read them: append, never rename."""

    OK = "ok"
    WARNING = "warning"  # the node runs, and somebody should look at it
    BAD = "bad"  # the node does not start, loses something, or will


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` is a sentence about what to do; empty if all is well."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """A node as it is configured. ``is_running``: a process has its log open now. ``now_s`` is Unix time."""

    config: NodeConfig
    is_running: bool
    now_s: float


Check = Callable[[Patient], Iterable[Finding]]


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.WARNING, found, advice)


def bad(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.BAD, found, advice)


def examine(patient: Patient, checks: Mapping[str, Check]) -> Iterator[Finding]:
    """Run one check after the other. A check that fails becomes a finding, and the others still run."""
    for name, check in checks.items():
        try:
            yield from check(patient)
        except WeftError as error:
            yield bad(name, str(error), "fix what the message says, and run this again")
        except OSError as error:
            yield bad(name, f"cannot look: {error}", "run this as the user that the node runs as")
