"""Answers of several nodes as one view."""

from __future__ import annotations

from typing import Any

import pytest

from weft.console.asking import CannotAsk
from weft.console.views import group_view, keys_view, mesh_view, streams_view, topics_view
from weft.security.api_keys import Hash, KeyRecord
from weft.wire.mesh import mesh_pb2 as pb


def peer(node: str, state: str = "alive", **more: Any) -> pb.PeerInfo:
    return pb.PeerInfo(node_id=node, state=state, **more)


@pytest.mark.req("SEE-01")
def test_every_node_and_link_is_there_once() -> None:
    peers: dict[str, Any] = {
        "a": pb.PeersReply(
            peers=[
                peer("b", connected=True, bytes_sent=10, bytes_received=7, rtt_us=900, neighbours=["a", "c"]),
                peer("c", neighbours=["b"]),
                peer("d", "dead", neighbours=["a"]),
            ]
        ),
        "b": pb.PeersReply(peers=[peer("a", connected=True, bytes_sent=8, bytes_received=9, rtt_us=700)]),
        "c": CannotAsk("it does not know your key", node="c"),
    }
    statuses: dict[str, Any] = {
        "a": pb.StatusReply(uptime_s=5),
        "b": pb.StatusReply(uptime_s=6),
        "c": CannotAsk("silent"),
    }
    view = mesh_view("a", peers, statuses)
    assert [(node["id"], node["state"]) for node in view["nodes"]] == [
        ("a", "alive"),
        ("b", "alive"),
        ("c", "alive"),
        ("d", "dead"),
    ]
    assert view["nodes"][2]["unasked"] == "silent" and "status" not in view["nodes"][3]
    first, second = view["links"]
    assert (first["a"], first["b"], first["ab_bytes"], first["ba_bytes"], first["rtt_us"]) == ("a", "b", 10, 8, 700)
    assert second == {"a": "b", "b": "c"}, "told by gossip, without figures"


@pytest.mark.req("SEE-01")
def test_copies_of_a_stream_are_not_added_up() -> None:
    topic = pb.TopicInfo(topic="t", streams=1, events=5, bytes=50, published=9)
    view = topics_view(
        {"a": pb.TopicsReply(topics=[topic]), "b": pb.TopicsReply(topics=[topic]), "c": CannotAsk("silent")}
    )
    assert [(each["events"], each["published"], each["nodes"]) for each in view["topics"]] == [(5, 9, ["a", "b"])]

    def positions(earliest: int, latest: int) -> pb.PositionsReply:
        ref = pb.StreamRef(topic="t", origin="a", epoch=1, partition=0)
        info = pb.StreamInfo(stream=ref, earliest_offset=earliest, latest_offset=latest, bytes=latest)
        return pb.PositionsReply(streams=[pb.PositionsOfStream(info=info)])

    (stream,) = streams_view({"a": positions(0, 9), "b": positions(3, 7)})
    assert (stream["earliest"], stream["latest"], stream["bytes"], stream["nodes"]) == (0, 9, 9, ["a", "b"])


@pytest.mark.req("SEE-01")
def test_a_group_is_as_far_behind_as_the_node_with_the_stream_sees_it() -> None:
    def seen(offset: int, latest: int, lag_us: int, member: str) -> pb.GroupsReply:
        ref = pb.StreamRef(topic="t", origin="a", epoch=1, partition=0)
        place = pb.StreamPosition(stream=ref, next_offset=offset)
        stream = pb.GroupStream(position=place, latest_offset=latest, lag_us=lag_us, member=member)
        return pb.GroupsReply(groups=[pb.GroupInfo(group="g", members=[member] if member else [], streams=[stream])])

    replies: dict[str, Any] = {"a": seen(3, 10, 5_000_000, ""), "b": seen(4, 4, 0, "m1"), "c": CannotAsk("silent")}
    view = group_view(replies, "g")
    assert (view["lag_events"], view["lag_us"], view["members"]) == (6, 5_000_000, ["m1"])
    assert view["places"][0]["member"] == "m1"
    done = group_view({"a": seen(3, 10, 5_000_000, ""), "b": seen(10, 10, 0, "")}, "g")
    assert (done["lag_events"], done["lag_us"]) == (0, 0)
    assert group_view({}, "none")["places"] == []


@pytest.mark.req("SEE-01", "SEC-02")
def test_of_a_key_neither_secret_nor_hash_is_shown() -> None:
    record = KeyRecord("k1", "ops", Hash("ab" * 16, "cd" * 32), 5, ("a.>",), (), admin=True)
    (view,) = keys_view([record])
    assert set(view) == {"id", "name", "publish", "subscribe", "admin", "created_s", "expires_s"}
    assert "cd" * 32 not in str(view)
