"""What a node answers over EXMP: $echo, publish, fetch, topics, status; and what it refuses (EXM-11)."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

import weft
from tests.gateway.exmp.joined import PATIENCE_S, address_of, joined, refused, until
from tests.node.running import running_node
from tests.transport.tcp.raw import Raw
from tests.wire.exmp.transcript import error, request, response
from weft import exmp
from weft.exmp import JsonObject
from weft.gateway.exmp.operations import EXMP_FETCH_EVENTS_MAX
from weft.model import Batch, Stream, parse_node_id, parse_topic


@pytest.mark.req("EXM-11")
async def test_echo_gives_back_what_it_got(tmp_path: Path) -> None:
    async with joined(tmp_path) as (_node, client):
        assert await client.call("$echo", {"a": [1, 2]}) == {"a": [1, 2]}
        assert await client.call("$echo") == {}


@pytest.mark.req("EXM-11")
async def test_what_is_published_over_exmp_is_read_over_grpc(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, client):
        receipt = await client.call(
            "publish", {"topic": "plant.temp", "payload": "21 °C", "key": "line1", "headers": {"unit": "C"}}
        )
        assert receipt == {
            "topic": "plant.temp",
            "origin": "a",
            "partition": 0,
            "epoch": node.log.epoch,
            "offset": 0,
            "copies": 1,
        }
        raw = {"topic": "plant.temp", "payload_base64": base64.b64encode(b"\xff\x00").decode(), "key_base64": "AP8="}
        second = await client.call("publish", raw)
        assert second is not None and second["offset"] == 1
        async with weft.connect(node.grpc_address, insecure=True) as reader:
            found = []
            async for event in reader.subscribe("plant.>", start="earliest"):
                found.append((event.payload, event.key, event.headers))
                if len(found) == 2:
                    break
        assert found == [("21 °C".encode(), b"line1", {"unit": "C"}), (b"\xff\x00", b"\x00\xff", None)]


@pytest.mark.req("CON-03")
async def test_an_event_for_later_comes_when_it_is_due(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, client), weft.connect(node.grpc_address, insecure=True) as reader:
        far = await client.call("publish", {"topic": "plant.temp", "payload": "far", "delay_s": 3600})
        assert far is not None and far["topic"].startswith("weft.later.")
        (waiting,) = await reader.later()
        assert (waiting.topic, waiting.event.payload, waiting.id.offset) == ("plant.temp", b"far", far["offset"])
        soon = await client.call("publish", {"topic": "plant.temp", "payload": "soon", "key": "k", "delay_s": 0.05})
        past = await client.call("publish", {"topic": "plant.temp", "payload": "past", "deliver_at_us": 1})
        assert soon is not None and past is not None
        found = {}
        async for event in reader.subscribe("plant.>", start="earliest"):
            found[event.payload] = event.key
            if len(found) == 2:
                break
        assert found == {b"past": None, b"soon": b"k"}


@pytest.mark.req("EXM-11")
async def test_fetch_reads_a_stream_piece_by_piece(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, client):
        await asyncio.gather(*(client.call("publish", {"topic": "t", "payload": str(n)}) for n in range(250)))
        got: list[JsonObject] = []
        offset = 0
        while True:
            answer = await client.call("fetch", {"topic": "t", "offset": offset})
            assert answer is not None and answer["end_offset"] == 250
            if not answer["events"]:
                break
            got += answer["events"]
            offset = answer["next_offset"]
        assert [event["payload"] for event in got] == [str(n) for n in range(250)]
        assert [event["offset"] for event in got] == list(range(250))
        assert got[0]["timestamp_us"] > 0 and "key" not in got[0] and "headers" not in got[0]
        last = await client.call("fetch", {"topic": "t", "epoch": node.log.epoch, "offset": 248, "events_max": 1})
        assert last is not None and [event["offset"] for event in last["events"]] == [248]


async def test_a_fetch_sees_what_was_published_before_it_on_the_same_connection(tmp_path: Path) -> None:
    """They are sent together; the fetch is not begun before the publish is answered (EXM-06)."""

    async with joined(tmp_path) as (_node, client):
        for number in range(20):
            _, found = await asyncio.gather(
                client.call("publish", {"topic": "t", "payload": "x"}),
                client.call("fetch", {"topic": "t", "offset": 0, "events_max": 1000}),
            )
            assert found is not None and len(found["events"]) == number + 1


@pytest.mark.req("EXM-11")
async def test_topics_and_status(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, client):
        await client.call("publish", {"topic": "plant.temp", "payload": "x"})
        await client.call("publish", {"topic": "office.door", "payload": "x"})
        everything = await client.call("topics")
        assert everything is not None
        assert sorted(each["topic"] for each in everything["topics"]) == ["office.door", "plant.temp"]
        some = await client.call("topics", {"pattern": "plant.>"})
        assert some is not None and [(each["topic"], each["events"]) for each in some["topics"]] == [("plant.temp", 1)]
        status = await client.call("status")
        assert status is not None
        assert (status["node"], status["events"], status["draining"]) == ("a", 2, False)
        assert f"exmp {address_of(node)}" in status["listeners"]


REFUSED = [
    ("nothing", None, "unknown_operation", "there is no operation 'nothing'"),
    ("x" * 500, None, "unknown_operation", f"there is no operation {'x' * 64!r}"),
    ("publish", None, "bad_request", "missing required field `topic`"),
    ("publish", {"topic": "t"}, "bad_request", "there is nothing to publish"),
    ("publish", {"topic": "t", "payload": 5}, "bad_request", "Expected `str | null`, got `int` - at `$.payload`"),
    ("publish", {"topic": "t", "payload": "x", "payload_base64": "eA=="}, "bad_request", "not both"),
    ("publish", {"topic": "t", "payload_base64": "*"}, "bad_request", "payload_base64 is not base64"),
    ("publish", {"topic": "t", "paylod": "x"}, "bad_request", "unknown field `paylod`"),
    ("publish", {"topic": "a..b", "payload": "x"}, "bad_request", "token 2 is empty"),
    ("publish", {"topic": "a.*", "payload": "x"}, "bad_request", "a.*"),
    ("publish", {"topic": "weft.groups.x", "payload": "x"}, "not_allowed", "belong to the mesh"),
    ("publish", {"topic": "t", "payload": "x", "headers": {"a": 1}}, "bad_request", "$.headers"),
    ("publish", {"topic": "t", "payload": "x", "key": "k" * 5000}, "bad_request", "key"),
    ("publish", {"topic": "t", "payload": "x", "delay_s": -1}, "bad_request", "delay_s is out of range"),
    ("publish", {"topic": "t", "payload": "x", "delay_s": 1e9}, "bad_request", "delay_s is out of range"),
    ("publish", {"topic": "t", "payload": "x", "deliver_at_us": -1}, "bad_request", "deliver_at_us is out of range"),
    ("publish", {"topic": "t", "payload": "x", "deliver_at_us": 2 * 10**17}, "bad_request", "too far ahead"),
    ("publish", {"topic": "t", "payload": "x", "deliver_at_us": 1, "delay_s": 1}, "bad_request", "not both"),
    ("publish", {"topic": "t", "payload": "x", "delay_s": 1, "copies": 2}, "bad_request", "waits at one node"),
    ("fetch", {}, "bad_request", "missing required field `topic`"),
    ("fetch", {"topic": "nobody.knows"}, "position_unknown", "there is no stream nobody.knows@a/0 here"),
    ("fetch", {"topic": "t", "epoch": 1}, "position_unknown", ""),
    ("fetch", {"topic": "t", "events_max": EXMP_FETCH_EVENTS_MAX + 1}, "bad_request", "events_max is out of range"),
    ("fetch", {"topic": "t", "origin": "not/one"}, "bad_request", "node id"),
    ("fetch", {"topic": "t", "partition": 1 << 20}, "bad_request", "no such partition"),
    ("fetch", {"topic": "t", "offset": -1}, "bad_request", "offset is out of range"),
    ("fetch", {"topic": "t", "offset": 1 << 63}, "bad_request", "offset is out of range"),
    ("fetch", {"topic": "t", "offset": 77}, "position_unknown", ""),
    ("fetch", {"topic": "t", "epoch": -1}, "position_unknown", ""),
    ("subscribe", {"pattern": ">", "start_timestamp_us": 1 << 64}, "bad_request", "start_timestamp_us is out of range"),
    ("subscribe", {"pattern": ">", "start_timestamp_us": -1}, "bad_request", "start_timestamp_us is out of range"),
    ("subscribe", {"pattern": ">", "group": "a b"}, "bad_request", ""),
    ("subscribe", {"pattern": ">", "group": "g" * 5000}, "bad_request", ""),
    ("subscribe", {"pattern": ">", "group": "g", "member": "m" * 5000}, "bad_request", ""),
    ("subscribe", {}, "bad_request", "missing required field `pattern`"),
    ("subscribe", {"pattern": ">.a"}, "bad_request", ""),
    ("subscribe", {"pattern": ">", "start": "middle"}, "bad_request", "$.start"),
    ("subscribe", {"pattern": ">", "window": 0}, "bad_request", "window is out of range"),
    ("subscribe", {"pattern": ">", "member": "m"}, "bad_request", "a member belongs to a group"),
    ("subscribe", {"pattern": ">", "start": "latest", "start_timestamp_us": 1}, "bad_request", "one start is enough"),
    ("subscribe", {"pattern": ">", "start_positions": ["t@a/0"]}, "bad_request", "is not a position"),
    ("unsubscribe", {"subscription": 7}, "bad_request", "no such subscription"),
    ("authenticate", {}, "bad_request", "missing required field `key`"),
    ("status", {"verbose": True}, "bad_request", "unknown field `verbose`"),
]


@pytest.mark.req("EXM-09", "EXM-11")
async def test_everything_that_is_wrong_has_a_code_and_a_description(tmp_path: Path) -> None:
    async with joined(tmp_path) as (_node, client):
        await client.call("publish", {"topic": "t", "payload": "x"})
        for op, data, code, words in REFUSED:
            found = await refused(client, op, data)
            assert found[0] == code, f"{op} {data}: {found}"
            assert words in found[1], f"{op} {data}: {found}"
            assert found[1], "a failure has a description"
        assert await client.call("$echo", {"still": 1}) == {"still": 1}


async def test_one_impossible_event_does_not_spoil_those_beside_it(tmp_path: Path) -> None:
    async with joined(tmp_path) as (_node, client):
        wanted = [{"topic": "t", "payload": str(n), "key": "k" * (5000 if n == 3 else 1)} for n in range(6)]
        answers = await asyncio.gather(*(client.call("publish", each) for each in wanted), return_exceptions=True)
        assert [isinstance(each, exmp.Failure) for each in answers] == [n == 3 for n in range(6)]
        found = await client.call("fetch", {"topic": "t"})
        assert found is not None and [event["payload"] for event in found["events"]] == ["0", "1", "2", "4", "5"]


async def test_events_that_come_together_become_one_batch(tmp_path: Path) -> None:
    """One read of one connection, and what others bring in the same turn, per topic."""

    async with joined(tmp_path) as (node, client):
        count = 500
        answers = await asyncio.gather(
            *(client.call("publish", {"topic": f"t{n % 2}", "payload": str(n)}) for n in range(count))
        )
        offsets = [answer["offset"] for answer in answers if answer is not None]
        assert offsets == [n // 2 for n in range(count)]
        stream = Stream(parse_topic("t0"), parse_node_id("a"), 0)
        batches = node.log.read(stream, node.log.epoch, 0)
        assert sum(len(Batch.read_stored(each)) for each in batches) == count // 2
        assert len(batches) <= 20


@pytest.mark.req("EXM-06")
async def test_answers_keep_the_order_of_requests_whatever_they_are(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, _):
        host, _, port = address_of(node).rpartition(":")
        raw = Raw(*await asyncio.open_connection(host, int(port)))
        await raw.greet()
        publish = '{"op":"publish","data":{"topic":"t","payload":"x"}}'
        raw.send(
            "\n".join(
                (
                    request(1, publish),
                    request(2, '{"op":"$echo","data":{"n":2}}'),
                    request(3, '{"op":"publish","data":[]}'),
                    request(4, publish),
                    request(5, '{"op":"nothing"}'),
                    request(6, '{"op":"$echo"}'),
                )
            )
        )
        receipt = (
            '{"status":"success","data":{"topic":"t","origin":"a","partition":0,"epoch":%d,"offset":%d,"copies":1}}'
        )
        await raw.expect(response(1, receipt % (node.log.epoch, 0)))
        await raw.expect(response(2, '{"status":"success","data":{"n":2}}'))
        reason = "Expected `object`, got `array` - at `$.data`"
        unfit = f'{{"status":"failure","code":"invalid_request","description":"{reason}"}}'
        await raw.expect(response(3, unfit))
        await raw.expect(response(4, receipt % (node.log.epoch, 1)))
        unknown = '{"status":"failure","code":"unknown_operation","description":"there is no operation \'nothing\'"}'
        await raw.expect(response(5, unknown))
        await raw.expect(response(6))
        await raw.close()


@pytest.mark.req("EXM-06", "EXM-08", "EXM-05")
@pytest.mark.parametrize(
    ("bad", "code", "reason"),
    [
        (request(3, "{"), 1, "Input data was truncated"),
        (request(3, '{"data":{}}'), 4, "Object missing required field `op`"),
        (request(1), 3, "this request id was used before (id 1)"),
    ],
)
async def test_what_ends_the_connection_comes_in_its_turn_and_nothing_behind_it_happens(
    tmp_path: Path, bad: str, code: int, reason: str
) -> None:
    """All of it arrives in one piece, as it does where publishes are handled ahead of their turn."""

    async with asyncio.timeout(PATIENCE_S), joined(tmp_path) as (node, client):
        host, _, port = address_of(node).rpartition(":")
        raw = Raw(*await asyncio.open_connection(host, int(port)))
        await raw.greet()
        publish = '{"op":"publish","data":{"topic":"t%d","payload":"x"}}'
        raw.send("\n".join((request(1, publish % 1), request(2, publish % 2), bad, request(4, publish % 3))))
        place = '"origin":"a","partition":0,"epoch":%d,"offset":0,"copies":1'
        receipt = f'{{"status":"success","data":{{"topic":"t%d",{place}}}}}'
        await raw.expect(response(1, receipt % (1, node.log.epoch)))
        await raw.expect(response(2, receipt % (2, node.log.epoch)))
        await raw.expect(error(code, reason))
        await raw.expect_end()
        await raw.close()
        found = await client.call("topics")
        assert found is not None and [each["topic"] for each in found["topics"]] == ["t1", "t2"]


@pytest.mark.req("EXM-11")
async def test_partition_timestamp_and_copies_of_an_event(tmp_path: Path) -> None:
    async with joined(tmp_path) as (_node, client):
        event = {"topic": "t", "payload": "x", "partition": 3, "timestamp_us": 77, "copies": 1}
        receipt = await client.call("publish", event)
        assert receipt is not None and (receipt["partition"], receipt["offset"]) == (3, 0)
        found = await client.call("fetch", {"topic": "t", "partition": 3})
        assert found is not None and found["events"][0]["timestamp_us"] == 77
        for name, value, last in (("partition", 65_536, 65_535), ("copies", 8, 7), ("timestamp_us", -1, 2**63 - 1)):
            code, description = await refused(client, "publish", {"topic": "t", "payload": "x", name: value})
            assert code == "bad_request"
            assert description == f"{name} is out of range (value {value}, first 0, last {last})"


async def test_a_node_that_takes_no_more_says_so_and_answers_what_it_owes(tmp_path: Path) -> None:
    async with joined(tmp_path) as (node, client):
        owed = [asyncio.create_task(client.call("publish", {"topic": "t", "payload": "x"})) for _ in range(100)]
        await until(lambda: any(task.done() for task in owed))
        await asyncio.gather(node.stop(), *owed)
        assert [task.result()["offset"] for task in owed] == list(range(100))  # type: ignore[index]


async def test_without_an_address_there_is_no_gateway(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        assert node.gateways == ()
