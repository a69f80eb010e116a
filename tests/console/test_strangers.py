"""What the console tells those who are not signed in, and those whom another site sends. On a real secured node."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path

import httpx
import pytest

from tests.console.conftest import new_key
from tests.console.signing import MARK, Place, publish, signed_in, stranger, told, who
from tests.up import COMMAND, END_TIMEOUT_S, up
from weft.console.app import static_files
from weft.console.guard import is_loopback
from weft.contexts import FILE, read_contexts
from weft.security.key_store import KeyRequest, revoke_key

WRONG = "weft_k1_" + "0" * 64
PATHS = ["me", "live", "topics", "topic", "events", "event", "explain", "tail", "group", "keys"]


@pytest.mark.req("SEE-01", "SEC-02")
def test_nothing_but_health_and_the_way_in_is_for_strangers(tmp_path: Path) -> None:
    with up(tmp_path / "a", "--node-id", "secret-name", environ={"WEFT_ADMIN_METRICS": "key"}) as node:
        with stranger(node) as http:
            assert http.get("/healthz").text == "ok\n"
            assert http.get("/readyz").json() == {"ready": True, "reasons": []}
            assert http.get("/metrics").status_code == 401
            for path in PATHS:
                answer = http.get(f"/api/{path}")
                assert (answer.status_code, set(answer.json())) == (401, {"error"}), path
            assert http.post("/api/publish", json={"topic": "t"}, headers=MARK).status_code == 401
            assert "secret-name" not in http.get("/").text
            key = node.context.token
            assert key is not None
            scraped = http.get("/metrics", headers={"authorization": f"Bearer {key}"})
            assert "weft_members" in scraped.text
            few = new_key(tmp_path / "a", KeyRequest("few", ("t",), ("t",)))
            assert http.get("/metrics", headers={"authorization": f"Bearer {few}"}).status_code == 403
        node.end_quietly()


@pytest.mark.req("SEE-01")
def test_the_console_is_off_by_setting(tmp_path: Path) -> None:
    with up(tmp_path / "a", "--node-id", "secret-name", environ={"WEFT_ADMIN_CONSOLE": "false"}) as node:
        with stranger(node) as http:
            assert http.get("/api/me").status_code == http.get("/console/main.js").status_code == 404
            assert http.get("/healthz").status_code == 200
        assert "console at" not in node.said()
        node.end_quietly()


@pytest.mark.req("SEE-01", "SEC-01", "OPS-02")
@pytest.mark.parametrize(
    ("admin", "environ"),
    [("0.0.0.0:0", {}), ("127.0.0.1:0", {"WEFT_ADMIN_TLS": "always"})],
    ids=["beyond loopback", "by setting"],
)
def test_it_speaks_tls_with_the_certificate_of_the_node(tmp_path: Path, admin: str, environ: dict[str, str]) -> None:
    with up(tmp_path / "a", "--admin", admin, "--node-id", "a", environ=environ) as node:
        port = int(node.admin.rpartition(":")[2])
        context = next(iter(read_contexts(node.config / FILE).contexts.values()))
        trusting = ssl.create_default_context(cafile=context.tls_root)
        connection = HTTPSConnection("127.0.0.1", port, timeout=END_TIMEOUT_S, context=trusting)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting, trust_env=False) as http:
            signed = http.post("/api/sign-in", json={"key": context.token}, headers=MARK)
            assert signed.headers["set-cookie"].startswith("__Host-") and "; Secure" in signed.headers["set-cookie"]
            assert http.get("/api/me").json()["admin"] is True
        with socket.create_connection(("127.0.0.1", port), timeout=END_TIMEOUT_S) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"ok" not in plain.recv(4096), "no plain text here"
        assert f"console at https://127.0.0.1:{port}" in node.said()
        asked = [*COMMAND, "doctor", "--data", str(tmp_path / "a"), "--listen", node.grpc, "--admin", node.admin]
        done = subprocess.run(
            asked, env=os.environ | environ, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False
        )
        assert "it runs and is ready" in done.stdout, done.stdout + done.stderr
        node.end_quietly()


@pytest.mark.req("SEE-01")
def test_a_wrong_key_opens_nothing_and_a_right_one_a_session_of_its_own(place: Place) -> None:
    with stranger(place.node) as http:
        for wrong in ("", "hello", WRONG, "weft_k9_" + "0" * 64, "x" * 10_000):
            answer = http.post("/api/sign-in", json={"key": wrong}, headers=MARK)
            assert answer.status_code in (401, 413) and "set-cookie" not in answer.headers
        for body in (b"", b"[]", b"{}", b'{"key": 1}', b"\xff", b"[" * 4000):
            answer = http.post("/api/sign-in", content=body, headers=MARK)
            assert answer.status_code == 400, answer.text
        answer = http.post("/api/sign-in", json={"key": place.admin}, headers=MARK)
        cookie = answer.headers["set-cookie"]
        assert answer.status_code == 204
        assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Max-Age=28800", "Path=/"))
        assert place.admin not in cookie and place.admin.rpartition("_")[2][:16] not in cookie
        assert http.get("/api/me").json()["who"] == who(place.admin)


@pytest.mark.req("SEE-01")
def test_a_session_that_somebody_planted_is_not_taken_over(place: Place) -> None:
    """Session fixation: signing in always makes a new token, and ends the old session."""
    with signed_in(place.node, place.few) as http:
        (name, planted) = next(iter(http.cookies.items()))
        assert http.post("/api/sign-in", json={"key": place.admin}, headers=MARK).status_code == 204
        fresh = http.cookies[name]
        assert fresh != planted
        with stranger(place.node) as thief:
            thief.cookies.set(name, planted)
            assert thief.get("/api/me").status_code == 401
            thief.cookies.set(name, "00" * 32)
            answer = thief.post("/api/sign-in", json={"key": WRONG}, headers=MARK)
            assert answer.status_code == 401 and thief.get("/api/me").status_code == 401
        assert http.post("/api/sign-out", headers=MARK).status_code == 204
        http.cookies.set(name, fresh)
        assert http.get("/api/me").status_code == 401, "the cookie of before is worth nothing"


@pytest.mark.req("SEE-01")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-weft-console": "0"},
        MARK | {"origin": "https://evil.example"},
        MARK | {"origin": "null"},
        MARK | {"sec-fetch-site": "cross-site"},
        MARK | {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_cannot_change_anything(place: Place, headers: dict[str, str]) -> None:
    """CSRF: even if a browser sent the cookie."""
    with signed_in(place.node, place.admin) as http:
        for path, body in (("publish", {"topic": "t"}), ("sign-out", {}), ("sign-in", {"key": place.few})):
            answer = http.post(f"/api/{path}", json=body, headers=headers)
            assert answer.status_code == 400 and "does not come from a page of this console" in answer.text
        assert http.get("/api/me").json()["who"] == who(place.admin)
        assert http.get("/api/sign-out").status_code == http.get("/api/publish").status_code == 405


@pytest.mark.req("SEE-01")
def test_pages_of_other_names_do_not_reach_an_insecure_node(tmp_path: Path) -> None:
    """DNS rebinding: a name of somebody else that leads to 127.0.0.1."""
    with up(tmp_path / "a", "--insecure") as node:
        with stranger(node) as http:
            assert http.get("/api/me").json()["insecure"] is True
            for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", ""):
                assert http.get("/api/me", headers={"host": host}).status_code == 400, host
                answer = http.post("/api/publish", json={"topic": "t"}, headers=MARK | {"host": host})
                assert answer.status_code == 400, host
            assert publish(http, "t").status_code == 200
        node.end_quietly()


def test_loopback_names() -> None:
    for good in ("localhost", "localhost:7480", "127.0.0.1:1", "127.9.9.9", "[::1]:7480", "[::1]"):
        assert is_loopback(good), good
    for bad in ("", "::1:80:", "10.0.0.1", "localhost.evil", "[", "0.0.0.0", "evil@10.0.0.1"):
        assert not is_loopback(bad), bad


@pytest.mark.req("SEE-01")
@pytest.mark.parametrize(
    "path",
    [
        "/console/../app.py",
        "/console/%2e%2e/app.py",
        "/console/%2e%2e%2fapp.py",
        "/console/..%5capp.py",
        "/console//etc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/index.html%00.js",
        "/console/",
        "/console/uplot.LICENSE.txt/../main.js",
    ],
)
def test_no_name_leads_out_of_the_pages(place: Place, path: str) -> None:
    host, _, port = place.node.admin.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=END_TIMEOUT_S) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 404")


@pytest.mark.req("SEE-01")
def test_pages_run_only_what_the_node_serves(place: Place) -> None:
    with stranger(place.node) as http:
        for name, (content, _, _) in static_files().items():
            answer = http.get("/" if name == "index.html" else f"/console/{name}")
            assert answer.content == content
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            again = http.get(str(answer.url), headers={"if-none-match": answer.headers["etag"]})
            assert again.status_code == 304
    ours = {name: content.decode() for name, (content, _, _) in static_files().items() if name != "uplot.js"}
    for name, text in ours.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), name
        assert not re.search(r"(src|href)=.?(https?:)?//", text) and "@import" not in text, (
            f"{name} loads from elsewhere"
        )
        assert not re.search(r"\son\w+=\"|<style|style=\"", text) or name == "icon.svg", f"{name} has inline code"


@pytest.mark.req("SEE-01", "SEC-02")
def test_a_revoked_key_is_out_at_once_with_what_it_has_open(place: Place) -> None:
    key = new_key(place.data, KeyRequest("gone", ("orders.>",), ("orders.>",)))
    with signed_in(place.node, key) as http:
        stream = told(http, "/api/tail", pattern="orders.>")
        assert next(stream)[0] == "ready"
        revoke_key(place.data, key.split("_")[1])
        name, said = next(stream)
        assert name == "over" and "revoked" in said["why"]
        assert http.get("/api/me").status_code == 401


@pytest.mark.req("SEE-01", "SEC-05")
def test_requests_that_are_too_large_are_refused(place: Place) -> None:
    with signed_in(place.node, place.admin) as http:
        assert http.get("/api/events", params={"pattern": "a" * 5000}).status_code == 413
        assert publish(http, "orders.large", "x" * 4_000_000).status_code == 413
        many = [told(http, "/api/tail", pattern="orders.>") for _ in range(6)]
        for each in many:
            assert next(each)[0] == "ready"
        refused = http.get("/api/tail", params={"pattern": "orders.>"})
        assert refused.status_code == 503 and "too many live pages" in refused.text
        for each in many:
            each.close()  # type: ignore[attr-defined]  # a generator
