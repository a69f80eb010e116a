"""Any node shows the whole mesh: three real secured nodes, one of which is killed and comes back."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.console.signing import publish, signed_in, told
from tests.console.three_nodes import ThreeNodes
from tests.up import END_TIMEOUT_S
from weft.model import Position


def until(http: httpx.Client, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first snapshot of which this holds."""
    for number, (name, snapshot) in enumerate(told(http, "/api/live")):
        assert name == "snapshot", snapshot
        if condition(snapshot):
            return dict(snapshot)
        assert number < END_TIMEOUT_S, snapshot
    raise AssertionError("the feed ended")


def states(snapshot: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["state"] for node in snapshot["mesh"]["nodes"]}


def all_asked(snapshot: dict[str, Any]) -> bool:
    nodes = snapshot["mesh"]["nodes"]
    return len(nodes) == 3 and all("status" in node and node["state"] == "alive" for node in nodes)


def shows_links(snapshot: dict[str, Any]) -> bool:
    return {("a", "b"), ("a", "c")} <= {(link["a"], link["b"]) for link in snapshot["mesh"]["links"]}


def shows_topics(snapshot: dict[str, Any]) -> bool:
    kept = {each["topic"]: each["nodes"] for each in snapshot["topics"]}
    return all(kept.get(f"kept.at.{each}") == [each] for each in "abc")


def answer(
    http: httpx.Client, path: str, condition: Callable[[dict[str, Any]], object], **query: str
) -> dict[str, Any]:
    """The first of which this holds: a node that is slow is left out of an answer."""
    end = time.monotonic() + END_TIMEOUT_S
    while not condition(found := http.get(path, params=query).json()):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return dict(found)


@pytest.mark.req("SEE-01")
def test_any_node_shows_all_nodes_links_topics_and_events(mesh: ThreeNodes) -> None:
    for name in ("a", "b", "c"):
        with signed_in(mesh.node(name), mesh.place.admin) as http:
            assert publish(http, f"kept.at.{name}", f"from {name}").status_code == 200
    for name in ("a", "b", "c"):
        with signed_in(mesh.node(name), mesh.place.admin) as http:
            until(http, lambda found: all_asked(found) and shows_links(found) and shows_topics(found))
            found = answer(http, "/api/events", lambda found: not found["silent"], pattern="kept.>")
            assert {b64decode(each["payload"]) for each in found["events"]} == {b"from a", b"from b", b"from c"}
            for event in found["events"]:
                whole = http.get("/api/event", params={"id": event["id"]}).json()
                assert whole["payload"] == event["payload"]


@pytest.mark.req("SEE-01")
def test_a_node_that_is_killed_is_shown_so_until_it_is_back(mesh: ThreeNodes) -> None:
    with signed_in(mesh.place.node, mesh.place.admin) as http:
        until(http, all_asked)
        mesh.kill("c")
        until(http, lambda snapshot: states(snapshot)["c"] == "dead")
        mesh.start("c")
        until(http, all_asked)


@pytest.mark.req("SEE-01")
async def test_a_group_and_its_lag_are_the_same_wherever_one_looks(mesh: ThreeNodes) -> None:
    """As a Spark job does: positions without members."""
    async with mesh.place.node.client() as client:
        for number in range(50):
            receipt = await client.publish("lag.t", f"{number}".encode())
        await client.commit("whole-mesh", [Position(receipt.stream, receipt.epoch, 10)])
    for name in ("a", "b"):
        with signed_in(mesh.node(name), mesh.place.admin) as http:
            until(
                http,
                lambda found: ("whole-mesh", 40) in [(each["group"], each["lag_events"]) for each in found["groups"]],
            )
            group = answer(http, "/api/group", lambda found: found["lag_events"] == 40, group="whole-mesh")
            assert group["lag_us"] > 0, group
            (place,) = group["places"]
            assert (place["topic"], place["offset"], place["latest"]) == ("lag.t", 10, 50)
