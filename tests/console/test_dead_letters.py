"""Dead letters on the console: seen, published again and dropped, with the rights of the key that signed in."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import Any

import httpx
import pytest

from tests.console.signing import MARK, Place, signed_in
from tests.up import END_TIMEOUT_S

pytestmark = pytest.mark.req("SEE-01", "CON-02")


def give_up(place: Place, topic: str, group: str, *payloads: str) -> None:
    """Each of them becomes a dead letter of the group."""

    async def story() -> None:
        async with asyncio.timeout(END_TIMEOUT_S), place.node.client() as client:
            for payload in payloads:
                await client.publish(topic, payload, key="k", headers={"unit": "C"})
            events = client.subscribe(topic, group=group, start="earliest", commit="manual", max_deliveries=1)
            async with events:
                for _ in payloads:
                    await events.nack(await anext(aiter(events)), reason="<b>no</b>")
                while len(await client.dead_letters(group)) < len(payloads):
                    await asyncio.sleep(0.02)

    asyncio.run(story())


def letters(http: httpx.Client, group: str) -> list[dict[str, Any]]:
    answer = http.get("/api/dead", params={"group": group})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["letters"]
    return found


def end(http: httpx.Client, group: str, event: str, what: str, headers: dict[str, str] = MARK) -> httpx.Response:
    return http.post("/api/dead", json={"group": group, "event": event, "do": what}, headers=headers)


def test_a_letter_is_shown_then_published_again_and_another_dropped(place: Place) -> None:
    give_up(place, "pages.dead", "pages", "first", "second")
    with signed_in(place.node, place.admin) as http:
        first, second = letters(http, "pages")
        assert (b64decode(first["payload"]), first["tries"], first["reason"]) == (b"first", 1, "<b>no</b>")
        assert (first["topic"], first["headers"], first["lost"]) == ("pages.dead", [["unit", "C"]], False)
        assert end(http, "pages", first["id"], "replay").status_code == 200
        assert [each["id"] for each in letters(http, "pages")] == [second["id"]]
        found = http.get("/api/events", params={"pattern": "pages.dead"}).json()["events"]
        assert [b64decode(each["payload"]) for each in found] == [b"first", b"second", b"first"]
        assert dict(found[0]["headers"]).keys() >= {"unit"} and found[0]["key"] == first["key"]
        assert end(http, "pages", second["id"], "drop").status_code == 200
        assert letters(http, "pages") == []
        assert "no dead letter" in end(http, "pages", second["id"], "replay").json()["error"]


def test_who_may_not_use_the_group_sees_and_ends_nothing(place: Place) -> None:
    give_up(place, "orders.dead", "others", "x")
    with signed_in(place.node, place.admin) as http:
        (letter,) = letters(http, "others")
        assert end(http, "others", letter["id"], "drop", headers={}).status_code == 400, "another site's page sent it"
    with signed_in(place.node, place.few) as http:
        for answer in (http.get("/api/dead", params={"group": "others"}), end(http, "others", letter["id"], "drop")):
            assert answer.status_code == 403 and "use group" in answer.json()["error"]
    with signed_in(place.node, place.admin) as http:
        assert [each["id"] for each in letters(http, "others")] == [letter["id"]]


@pytest.mark.parametrize("body", [{"group": "g"}, {"group": "g", "event": "x", "do": "burn"}, [], "x"])
def test_what_no_page_sends_is_refused(place: Place, body: object) -> None:
    with signed_in(place.node, place.admin) as http:
        answer = http.post("/api/dead", json=body, headers=MARK)
        assert answer.status_code == 400 and "not one that a page sends" in answer.json()["error"]
