"""What pages get from a real secured node: the rights of the key that signed in, and nothing beyond."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.console.signing import Place, publish, signed_in, told
from tests.up import COMMAND, END_TIMEOUT_S, up
from weft.console.streaming import TAIL_EVENTS_MAX

NASTY = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def events(http: httpx.Client, **query: str) -> list[dict[str, Any]]:
    answer = http.get("/api/events", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


@pytest.mark.req("SEE-01")
def test_what_is_published_on_a_page_is_found_and_shown(place: Place) -> None:
    with signed_in(place.node, place.admin) as http:
        receipt = publish(http, "orders.made", '{"n": 1}', key="c1", headers={"source": "page"}).json()
        assert receipt["copies"] == 1
        (event,) = events(http, pattern="orders.made")
        assert event["id"] == receipt["id"] and b64decode(event["payload"]) == b'{"n": 1}'
        assert (event["headers"], b64decode(event["key"])) == ([["source", "page"]], b"c1")
        whole = http.get("/api/event", params={"id": receipt["id"]}).json()
        assert whole["size"] == 8 and whole["decoded"] is None
        topic = http.get("/api/topic", params={"topic": "orders.made"}).json()
        assert topic["streams"][0]["latest"] == 1 and topic["streams"][0]["nodes"] == ["a"]
        assert topic["settings"] == {"copies": 1, "compact": False, "age_s": None, "bytes": None}
        assert publish(http, "orders.binary", "AAEC", encoding="base64").status_code == 200
        assert b64decode(events(http, pattern="orders.binary")[0]["payload"]) == b"\x00\x01\x02"


@pytest.mark.req("SEE-01")
def test_events_are_found_by_key_and_time_the_newest_first(place: Place) -> None:
    with signed_in(place.node, place.admin) as http:
        for number in range(30):
            assert publish(http, f"found.{number % 3}", str(number), key=f"k{number % 5}").status_code == 200
        found = events(http, pattern="found.>")
        assert [b64decode(each["payload"]) for each in found] == [
            str(number).encode() for number in reversed(range(30))
        ]
        assert {b64decode(each["key"]) for each in events(http, pattern="found.>", key="k2")} == {b"k2"}
        middle = found[10]["timestamp_us"]
        later = events(http, pattern="found.>", begin_us=str(middle))
        earlier = events(http, pattern="found.>", end_us=str(middle))
        assert len(later) == 11 and len(earlier) == 19 and later + earlier == found
        assert len(events(http, pattern="found.>", count="4")) == 4
        for query in ({"count": "0"}, {"count": "x"}, {"begin_us": "9" * 30}, {"begin_us": "2", "end_us": "1"}):
            answer = http.get("/api/events", params={"pattern": "found.>", **query})
            assert answer.status_code == 400 and answer.json()["error"], query
        for wrong in ("", "found..x", "found.0@a/0", "a@b/0:e1:" + "9" * 30):
            assert http.get("/api/event", params={"id": wrong}).status_code == 400, wrong


@pytest.mark.req("SEE-01", "SEC-02")
def test_a_key_with_few_rights_sees_its_topics_and_nothing_else(place: Place) -> None:
    with signed_in(place.node, place.admin) as admin:
        secret = publish(admin, "salaries.june", "secret").json()["id"]
        publish(admin, "orders.seen", "seen")
    with signed_in(place.node, place.few) as http:
        me = http.get("/api/me").json()
        assert (me["admin"], me["publish"], me["subscribe"]) == (False, ["orders.>"], ["orders.>"])
        name, snapshot = next(told(http, "/api/live"))
        assert name == "snapshot" and set(snapshot) == {"at_ms", "topics", "more"}
        assert snapshot["topics"] and all(each["topic"].startswith("orders.") for each in snapshot["topics"])
        topics = http.get("/api/topics").json()["topics"]
        assert all(each["topic"].startswith("orders.") for each in topics)
        assert "recipients" not in http.get("/api/topic", params={"topic": "orders.seen"}).json()
        refused = [
            http.get("/api/events", params={"pattern": ">"}),
            http.get("/api/events", params={"pattern": "salaries.june"}),
            http.get("/api/event", params={"id": secret}),
            http.get("/api/topic", params={"topic": "salaries.june"}),
            http.get("/api/tail", params={"pattern": ">"}),
            http.get("/api/explain", params={"topic": "orders.seen"}),
            http.get("/api/group", params={"group": "g"}),
            http.get("/api/keys"),
            publish(http, "salaries.june"),
            publish(http, "weft.groups.x"),
        ]
        for answer in refused:
            assert (answer.status_code == 403 and "not allowed" in answer.text) or "belong to the mesh" in answer.text
        assert publish(http, "orders.seen", "again").status_code == 200


@pytest.mark.req("SEE-01")
def test_the_live_feed_has_the_whole_picture_for_an_administrator(place: Place) -> None:
    with signed_in(place.node, place.admin) as http:
        publish(http, "orders.live")
        stream = told(http, "/api/live")
        for _ in range(2):
            name, snapshot = next(stream)
            assert name == "snapshot"
        (node,) = snapshot["mesh"]["nodes"]
        assert (node["id"], node["state"], snapshot["mesh"]["me"]) == ("a", "alive", "a")
        status = node["status"]
        assert status["published_events"] >= 1 and status["certificate_end_s"] > 0 and status["not_ready"] == []
        assert status["console"] == f"http://{place.node.admin}"
        assert snapshot["groups"] == [] and snapshot["topics"]
        keys = http.get("/api/keys").json()["keys"]
        assert {"the first key", "few"} <= {key["name"] for key in keys}
        assert "hash" not in json.dumps(keys)


@pytest.mark.req("SEE-01")
def test_the_tail_shows_what_comes_and_only_that(place: Place) -> None:
    with signed_in(place.node, place.few) as http, signed_in(place.node, place.admin) as admin:
        publish(admin, "orders.tail", "before")
        stream = told(http, "/api/tail", pattern="orders.tail", key="k")
        assert next(stream)[0] == "ready"
        publish(admin, "orders.other", "elsewhere", key="k")
        publish(admin, "orders.tail", "without the key")
        publish(admin, "orders.tail", "after", key="k")
        name, said = next(stream)
        while not said["events"]:
            name, said = next(stream)
        assert name == "events" and [b64decode(each["payload"]) for each in said["events"]] == [b"after"]


@pytest.mark.req("SEE-01", "SEC-05")
async def test_of_many_events_the_tail_shows_some_and_counts_the_rest(place: Place) -> None:
    many = 5000

    with signed_in(place.node, place.few) as http:
        stream = told(http, "/api/tail", pattern="orders.pour")
        assert next(stream)[0] == "ready"
        async with place.node.client() as client:
            for number in range(many):
                await client.wait_for_room()
                client.publish_nowait("orders.pour", f"{number}".encode())
            await client.flush()
        shown: list[int] = []
        passed_over = 0
        while len(shown) + passed_over < many:
            _, said = next(stream)
            assert len(said["events"]) <= TAIL_EVENTS_MAX
            shown += [int(b64decode(each["payload"])) for each in said["events"]]
            passed_over += said["passed_over"]
        assert shown == sorted(shown) and shown[-1] == many - 1, "in order, and the newest is among them"


@pytest.mark.req("SEE-01", "SEC-04")
def test_text_of_others_is_data_and_never_markup(place: Place) -> None:
    """XSS: names, keys, headers and payloads leave as JSON strings, which a browser is told not to take for a page."""
    with signed_in(place.node, place.admin) as http:
        topic = "orders." + NASTY.replace(" ", "").replace(">", "").replace(".", "")
        publish(http, topic, NASTY, key=NASTY, headers={NASTY: NASTY})
        answer = http.get("/api/events", params={"pattern": "orders.>"})
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        event = next(each for each in answer.json()["events"] if each["topic"] == topic)
        assert event["headers"] == [[NASTY, NASTY]] and b64decode(event["key"]).decode() == NASTY
        refused = http.get("/api/topic", params={"topic": NASTY})
        assert refused.status_code == 400 and refused.headers["content-type"] == "application/json"


@pytest.mark.req("SEE-01", "OPS-01")
def test_a_node_ends_well_while_pages_are_open(tmp_path: Path) -> None:
    with up(tmp_path / "a") as node:
        key = node.context.token
        assert key is not None
        with signed_in(node, key) as http:
            live, tail = told(http, "/api/live"), told(http, "/api/tail", pattern=">")
            assert (next(live)[0], next(tail)[0]) == ("snapshot", "ready")
            node.process.send_signal(signal.SIGTERM)
            for stream in (live, tail):
                name, said = next(each for each in stream if each[0] != "snapshot")
                assert name == "over" and "shutting down" in said["why"]
        assert node.process.wait(END_TIMEOUT_S) == 0
        assert "Traceback" not in node.said() and "exception" not in node.said()


@pytest.mark.req("SEE-01")
def test_the_command_says_where_it_is_and_how_to_get_in(place: Place) -> None:
    environ = os.environ | {"WEFT_CONFIG_DIR": str(place.node.config)}
    command = [*COMMAND, "console"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (0, f"http://{place.node.admin}\n"), done.stderr
    assert "contexts.toml" in done.stderr.replace("\n", "") and place.admin not in done.stderr + done.stdout
    assert f"console at http://{place.node.admin}" in place.node.said()


@pytest.mark.req("SEE-01")
def test_gateways_tell_what_became_of_what_came_in(tmp_path: Path) -> None:
    gateways = {"WEFT_GATEWAY_EMM_UDP": "127.0.0.1:0", "WEFT_GATEWAY_EXMP_TCP": "127.0.0.1:0"}
    with up(tmp_path / "a", environ=gateways) as node:
        key = node.context.token
        assert key is not None
        host, _, port = node.gateway("emm").rpartition(":")
        with signed_in(node, key) as http, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            device.sendto(b"\x01 no packet", (host, int(port)))
            for _, snapshot in told(http, "/api/live"):
                shown = {each["protocol"]: each for each in snapshot["mesh"]["nodes"][0]["status"]["gateways"]}
                assert set(shown) == {"emm", "exmp"}
                if sum(shown["emm"]["refused"].values()) == 1:
                    break
            assert shown["emm"]["listeners"] == [f"emm {node.gateway('emm')}"]
        node.end_quietly()
