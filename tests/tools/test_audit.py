"""``make audit``: what PyPI's answers mean, and that a check without data does not pass for one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tools.audit import Advisory, NoData, Package, advisories, audit, fetch_from, installed, report

OLD, NEW = Package("thing", "1.0"), Package("thing", "2.0")
# As https://pypi.org/pypi/NAME/VERSION/json has them (docs.pypi.org/api/json, "vulnerabilities").
STANDING = {
    "id": "PYSEC-2020-1",
    "aliases": ["GHSA-1", "CVE-2020-7694"],
    "details": "Log injection.\nMore.",
    "summary": None,
    "fixed_in": ["1.1"],
    "withdrawn": None,
}
WITHDRAWN = {**STANDING, "id": "PYSEC-2", "withdrawn": "2024-01-01T00:00:00Z"}


@contextmanager
def registry(pages: Mapping[str, Any]) -> Iterator[str]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(b"" if page is None else json.dumps(page).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_what_stands_against_a_release() -> None:
    expected = Advisory(OLD, "CVE-2020-7694", "1.1", "Log injection.")
    assert advisories(OLD, {"vulnerabilities": [STANDING, WITHDRAWN]}) == [expected]
    assert advisories(OLD, {"vulnerabilities": []}) == []
    others: list[Any] = [{}, [], None, {"vulnerabilities": ["x"]}]
    for other in others:
        with pytest.raises(NoData):
            advisories(OLD, other)


def test_a_vulnerable_package_a_good_one_and_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"/pypi/thing/1.0/json": {"vulnerabilities": [STANDING]}, "/pypi/thing/2.0/json": {"vulnerabilities": []}}
    with registry(pages) as base:
        assert report([NEW], *audit([NEW], fetch_from(base))) == 0
        assert report([OLD, NEW], *audit([OLD, NEW], fetch_from(base))) == 1
        assert "thing 1.0: CVE-2020-7694, fixed in 1.1: Log injection." in capsys.readouterr().out
        absent = Package("other", "1")
        assert report([NEW, absent], *audit([NEW, absent], fetch_from(base))) == 2, "one was not checked"
        assert report([absent], *audit([absent], fetch_from(base))) == 2
        assert "NOTHING WAS CHECKED" in capsys.readouterr().out
    assert report([NEW], *audit([NEW], fetch_from(base))) == 2, "nobody answers"


def test_a_mirror_that_has_the_latest_release_only(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"/pypi/thing/json": {"info": {"version": "2.0"}, "vulnerabilities": [STANDING]}, "/pypi/odd/json": []}
    with registry(pages) as base:
        assert report([NEW], *audit([NEW], fetch_from(base))) == 1
        assert report([OLD], *audit([OLD], fetch_from(base))) == 2, "what is told is not of this release"
        assert "latest release only, 2.0" in capsys.readouterr().out
        odd = Package("odd", "1")
        assert report([odd], *audit([odd], fetch_from(base))) == 2


def test_installed_packages_are_those_of_others() -> None:
    names = {each.name for each in installed()}
    assert {"pyarrow", "cryptography"} <= names
    assert "weft" not in names
