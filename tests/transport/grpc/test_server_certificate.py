"""When gRPC gets a certificate: after it changed, and not while a handshake begins with the one before."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.node.secured import client_credentials
from weft.limits import HANDSHAKE_BEGIN_S
from weft.security import Authority, AuthoritySettings, Credentials
from weft.transport.grpc import server_certificate
from weft.transport.grpc.server_certificate import ServerCertificate

NOW_S = 1_700_000_000.0
WAIT_S = 60.0


class Renewed:
    """What a server has, and all it will have."""

    def __init__(self, directory: Path, times: int) -> None:
        authority = Authority.create(directory, AuthoritySettings("weft", "https://127.0.0.1:1"), NOW_S)
        self.all = [client_credentials(authority, NOW_S) for _ in range(times)]
        self.number = 0

    def current(self) -> Credentials:
        return self.all[self.number]


class Clock:
    """Time passes by sleeping alone."""

    def __init__(self) -> None:
        self.now_s = 5.0
        self.slept_s: list[float] = []

    def read(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)
        self.now_s += duration_s


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC's configurations do not tell what is in them."""
    monkeypatch.setattr(server_certificate, "_configuration", lambda credentials: credentials)


def test_a_certificate_is_given_once_after_it_changed(tmp_path: Path) -> None:
    renewed, clock = Renewed(tmp_path, 3), Clock()
    certificate = ServerCertificate(renewed.current, clock=clock.read, sleep=clock.sleep)
    assert certificate.changed() is None, "gRPC began with it"
    for number in (1, 2):
        renewed.number = number
        assert certificate.changed() is renewed.all[number]
        assert certificate.changed() is None


def test_a_change_waits_until_handshakes_with_the_certificate_before_are_through(tmp_path: Path) -> None:
    renewed, clock = Renewed(tmp_path, 4), Clock()
    certificate = ServerCertificate(renewed.current, clock=clock.read, sleep=clock.sleep)
    assert certificate.changed() is None  # a handshake begins
    clock.now_s += HANDSHAKE_BEGIN_S / 4
    renewed.number = 1
    assert certificate.changed() is renewed.all[1]
    assert clock.slept_s == [pytest.approx(HANDSHAKE_BEGIN_S * 3 / 4)]
    renewed.number = 2
    assert certificate.changed() is renewed.all[2]  # the handshake that got the last one counts as well
    assert clock.slept_s[1:] == [pytest.approx(HANDSHAKE_BEGIN_S)]
    clock.now_s += HANDSHAKE_BEGIN_S
    renewed.number = 3
    assert certificate.changed() is renewed.all[3]
    assert clock.slept_s[2:] == [0.0], "nobody is about to use the one before"


def test_what_changes_during_the_wait_is_given_as_it_is_then(tmp_path: Path) -> None:
    renewed, clock = Renewed(tmp_path, 3), Clock()

    def sleep(duration_s: float) -> None:
        renewed.number = 2

    certificate = ServerCertificate(renewed.current, clock=clock.read, sleep=sleep)
    renewed.number = 1
    assert certificate.changed() is renewed.all[2]
    assert certificate.changed() is None


def test_of_many_threads_one_gets_each_change(tmp_path: Path) -> None:
    renewed = Renewed(tmp_path, 20)
    threads = 8
    together = threading.Barrier(threads)
    certificate = ServerCertificate(renewed.current, sleep=lambda duration_s: None)

    def ask(_: int) -> Credentials | None:
        together.wait(WAIT_S)
        return certificate.changed()  # type: ignore[no-any-return]  # as ``readable`` has it

    with ThreadPoolExecutor(threads) as pool:
        for number in range(1, len(renewed.all)):
            renewed.number = number
            given = [each for each in pool.map(ask, range(threads)) if each is not None]
            assert given == [renewed.all[number]]
