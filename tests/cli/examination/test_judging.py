"""The rules of ``weft doctor``, from numbers alone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from weft.cli.examination import Finding, Patient, Verdict, examine, ok
from weft.cli.examination.certificates import is_overdue
from weft.cli.examination.machine import EARLIEST_S, judge_clock, judge_descriptors, judge_disk, settings
from weft.cli.examination.network import judge_port
from weft.doors.descriptors import UNLIMITED, FileLimit
from weft.errors import StorageError
from weft.limits import MIB
from weft.node.config import NodeConfig
from weft.node.config.loading import load_config

NOW_S = 1_800_000_000.0


def advised(finding: Finding) -> Verdict:
    """Its verdict; whatever is not well has a sentence about what to do."""
    assert bool(finding.advice) == (finding.verdict is not Verdict.OK)
    return finding.verdict


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize(
    ("free", "verdict"),
    [(0, Verdict.BAD), (16, Verdict.BAD), (17, Verdict.WARNING), (31, Verdict.WARNING), (32, Verdict.OK)],
)
def test_disk(free: int, verdict: Verdict) -> None:
    assert advised(judge_disk(Path("/data"), free * MIB, 16 * MIB)) is verdict


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize(
    ("now_s", "last_start_s", "verdict"),
    [
        (NOW_S, 0.0, Verdict.OK),
        (NOW_S, NOW_S - 1, Verdict.OK),
        (NOW_S, NOW_S + 59, Verdict.OK),
        (NOW_S, NOW_S + 61, Verdict.BAD),
        (EARLIEST_S - 1, 0.0, Verdict.BAD),
    ],
)
def test_clock(now_s: float, last_start_s: float, verdict: Verdict) -> None:
    assert advised(judge_clock(now_s, last_start_s)) is verdict


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(64, Verdict.BAD), (256, Verdict.WARNING), (1024, Verdict.OK), (UNLIMITED, Verdict.OK)],
)
def test_descriptors(hard: int, verdict: Verdict) -> None:
    config = NodeConfig.model_validate({"limits": {"connections_max": 100}})
    assert advised(judge_descriptors(FileLimit(256, 256, hard), config)) is verdict


@pytest.mark.req("OPS-02")
@pytest.mark.parametrize(
    ("number", "is_running", "verdict"),
    [
        (errno.EADDRINUSE, True, Verdict.OK),
        (errno.EADDRINUSE, False, Verdict.BAD),
        (errno.EACCES, False, Verdict.BAD),
        (errno.EADDRNOTAVAIL, True, Verdict.BAD),
    ],
)
def test_ports(number: int, is_running: bool, verdict: Verdict) -> None:
    assert advised(judge_port("listen.grpc 127.0.0.1:1", number, "why", is_running)) is verdict


def test_a_certificate_is_overdue_long_after_its_renewal_was_due() -> None:
    assert not is_overdue(0.0, 24.0, 16.0), "renewal is due just now"
    assert is_overdue(0.0, 24.0, 20.0)


@pytest.mark.req("OPS-02")
def test_settings_that_nobody_means() -> None:
    odd = {
        "peers": ["127.0.0.1:7400"],
        "insecure": True,
        "gateway.exmp.tcp": "127.0.0.1:7480",
    }
    found = list(settings(Patient(load_config(None, {}, odd), False, NOW_S)))
    told = " | ".join(each.found for each in found)
    assert "the node is its own peer: 127.0.0.1:7400" in told
    assert "plain text, no keys" in told
    assert "listen.admin 127.0.0.1:7480 is there twice" in told and "gateway.exmp.tcp 127.0.0.1:7480" in told
    assert [advised(each) for each in found].count(Verdict.BAD) == 2
    (fine,) = settings(Patient(NodeConfig(), False, NOW_S))
    assert fine.verdict is Verdict.OK


def test_a_check_that_fails_is_a_finding_and_the_others_go_on() -> None:
    def damaged(_: Patient) -> list[Finding]:
        raise StorageError("keys.json is damaged")

    def forbidden(_: Patient) -> list[Finding]:
        raise PermissionError(errno.EACCES, "Permission denied", "/data")

    checks = {"a": damaged, "b": forbidden, "c": lambda _: [ok("c", "fine")]}
    found = list(examine(Patient(NodeConfig(), False, NOW_S), checks))
    assert [advised(each) for each in found] == [Verdict.BAD, Verdict.BAD, Verdict.OK]
    assert found[0].found == "keys.json is damaged"
    assert "Permission denied" in found[1].found
