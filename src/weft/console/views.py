"""Answers of nodes as the pages get them: plain dictionaries, for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.errors import WeftError
from weft.model.pipeline_reports import PipelineReport
from weft.port.access import Caller
from weft.security.api_keys import KeyRecord
from weft.wire.mesh import mesh_pb2 as pb

View = dict[str, Any]
PATTERNS_SHOWN_MAX: Final = 32  # of a node's interest
TOPICS_SHOWN_MAX: Final = 500  # in the live list; more are found by their pattern


def me_view(caller: Caller) -> View:
    """Who is signed in, and what the pages may offer."""
    acl = caller.acl
    return {"who": acl.who, "admin": acl.admin, "publish": list(acl.publish), "subscribe": list(acl.subscribe)}


# --- nodes and links -------------------------------------------------------------------------------------------------


def mesh_view(
    me: str, peers: Mapping[str, pb.PeersReply | WeftError], statuses: Mapping[str, pb.StatusReply | WeftError]
) -> View:
    """Every node that gossip knows, with what it reports about itself if it could be asked; and the links between
    them."""
    known: dict[str, pb.PeerInfo] = {}
    mine = peers[me]
    assert not isinstance(mine, WeftError), "this node has answered"
    for peer in mine.peers:
        known[peer.node_id or peer.addresses[0]] = peer  # an address that is dialled has no name yet
    nodes = [_node_view(me, None, statuses.get(me))]
    nodes += [_node_view(name, peer, statuses.get(name)) for name, peer in known.items()]
    return {"me": me, "nodes": sorted(nodes, key=lambda node: str(node["id"])), "links": _links(me, peers, known)}


def _node_view(name: str, peer: pb.PeerInfo | None, status: pb.StatusReply | WeftError | None) -> View:
    view: View = {"id": name, "state": "alive" if peer is None else peer.state}
    if peer is not None:
        view |= {
            "addresses": list(peer.addresses),
            "interest": list(peer.interest[:PATTERNS_SHOWN_MAX]),
            "patterns": len(peer.interest),
        }
    if isinstance(status, WeftError):
        view["unasked"] = status.what
    elif status is not None:
        view["status"] = _status_view(status)
    return view


def _status_view(status: pb.StatusReply) -> View:
    counters = status.counters
    return {
        "version": status.version,
        "epoch": str(status.epoch),
        "uptime_s": status.uptime_s,
        "streams": status.streams,
        "events": status.events,
        "log_bytes": status.log_bytes,
        "listeners": list(status.listeners),
        "draining": status.draining,
        "not_ready": list(status.not_ready),
        "console": status.console,
        "certificate_end_s": status.certificate_end_s,
        "published_events": counters.published_events,
        "published_bytes": counters.published_bytes,
        "delivered_events": counters.delivered_events,
        "delivered_bytes": counters.delivered_bytes,
        "clients": counters.clients,
        "subscriptions": counters.subscriptions,
        "gateways": [
            {
                "protocol": each.protocol,
                "listeners": list(each.listeners),
                "verdicts": dict(each.verdicts),
                "refused": dict(each.refused),
            }
            for each in status.gateways
        ],
    }


def _links(me: str, peers: Mapping[str, pb.PeersReply | WeftError], known: Mapping[str, pb.PeerInfo]) -> list[View]:
    """Each link once, by its two names in order. Nodes that were asked report figures; for the others, gossip says only
    that the link exists.
    """
    links: dict[tuple[str, str], View] = {}
    for reporter, reply in peers.items():
        if isinstance(reply, WeftError):
            continue
        for peer in reply.peers:
            if peer.connected:
                _add_link(links, reporter, peer)
    for name, peer in known.items():
        for neighbour in peer.neighbours:
            ends = _ends(name, neighbour)
            if peer.state in ("alive", "suspect") and (neighbour in known or neighbour == me):
                links.setdefault(ends, {"a": ends[0], "b": ends[1]})
    return [links[ends] for ends in sorted(links)]


def _add_link(links: dict[tuple[str, str], View], reporter: str, peer: pb.PeerInfo) -> None:
    ends = _ends(reporter, peer.node_id)
    link = links.setdefault(ends, {"a": ends[0], "b": ends[1]})
    sent, received = ("ab", "ba") if reporter == ends[0] else ("ba", "ab")
    link[f"{sent}_bytes"] = peer.bytes_sent
    link.setdefault(f"{received}_bytes", peer.bytes_received)
    link[f"{sent}_lag"] = peer.lag_events
    link[f"{sent}_queue"] = peer.queue_frames
    if peer.rtt_us:
        link["rtt_us"] = min(peer.rtt_us, link.get("rtt_us", peer.rtt_us))


def _ends(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


# --- topics ----------------------------------------------------------------------------------------------------------


def topics_view(replies: Mapping[str, pb.TopicsReply | WeftError]) -> View:
    """Every topic once. Several nodes have copies of one stream, so the figures are those of the node that has the
    most."""
    topics: dict[str, View] = {}
    more = False
    for node, reply in replies.items():
        if isinstance(reply, WeftError):
            continue
        more = more or bool(reply.next_page)
        for info in reply.topics:
            topic = topics.setdefault(info.topic, {"topic": info.topic, "nodes": []} | dict.fromkeys(FIGURES, 0))
            topic["nodes"].append(node)
            for name in FIGURES:
                topic[name] = max(topic[name], getattr(info, name))
    names = sorted(topics)
    shown = [topics[name] for name in names[:TOPICS_SHOWN_MAX]]
    return {"topics": shown, "more": more or len(shown) < len(names)}


FIGURES: Final = ("streams", "events", "bytes", "last_timestamp_us", "published")


def streams_view(replies: Mapping[str, pb.PositionsReply | WeftError]) -> list[View]:
    """Each stream once, with the nodes that keep it and the most of it that one of them has."""
    streams: dict[tuple[str, int, int], View] = {}
    for node, reply in replies.items():
        if isinstance(reply, WeftError):
            continue
        for place in reply.streams:
            info, ref = place.info, place.info.stream
            view = streams.setdefault(
                (ref.origin, ref.epoch, ref.partition),
                {
                    "origin": ref.origin,
                    "epoch": str(ref.epoch),
                    "partition": ref.partition,
                    "earliest": info.earliest_offset,
                    "latest": 0,
                    "bytes": 0,
                    "first_timestamp_us": info.first_timestamp_us,
                    "last_timestamp_us": 0,
                    "nodes": [],
                },
            )
            view["nodes"].append(node)
            view["earliest"] = min(view["earliest"], info.earliest_offset)
            view["latest"] = max(view["latest"], info.latest_offset)
            view["bytes"] = max(view["bytes"], info.bytes)
            view["last_timestamp_us"] = max(view["last_timestamp_us"], info.last_timestamp_us)
    return [streams[key] for key in sorted(streams)]


def recipients_view(reply: pb.ExplainReply) -> list[View]:
    return [
        {"node": each.node_id, "pattern": each.pattern, "path": list(each.path), "reason": each.reason}
        for each in reply.recipients
    ]


# --- groups ----------------------------------------------------------------------------------------------------------


def groups_view(replies: Mapping[str, pb.GroupsReply | WeftError]) -> list[View]:
    return [_group_view(name, parts, with_streams=False) for name, parts in sorted(_by_name(replies).items())]


def group_view(replies: Mapping[str, pb.GroupsReply | WeftError], name: str) -> View:
    """One group with its streams."""
    return _group_view(name, _by_name(replies).get(name, []), with_streams=True)


def _by_name(replies: Mapping[str, pb.GroupsReply | WeftError]) -> dict[str, list[pb.GroupInfo]]:
    found: dict[str, list[pb.GroupInfo]] = {}
    for reply in replies.values():
        if not isinstance(reply, WeftError):
            for group in reply.groups:
                found.setdefault(group.group, []).append(group)
    return found


def _group_view(name: str, parts: Iterable[pb.GroupInfo], *, with_streams: bool) -> View:
    """``parts``: the group as several nodes see it. A node without a copy of a stream sees no lag in it, so the largest
    lag counts. Every node hears of positions sooner or later, so the furthest counts.
    """
    streams: dict[tuple[str, str, int, int], View] = {}
    members: set[str] = set()
    for part in parts:
        members.update(part.members)
        for stream in part.streams:
            ref = stream.position.stream
            key = (ref.topic, ref.origin, ref.epoch, ref.partition)
            _take_stream(streams.setdefault(key, _empty_stream(ref)), stream)
    ordered = [streams[key] for key in sorted(streams)]
    for each in ordered:
        each["lag_events"] = max(each["latest"] - max(each["offset"], each.pop("earliest")), 0)
        each["lag_us"] = each["lag_us"] if each["lag_events"] else 0
    view: View = {
        "group": name,
        "members": sorted(members),
        "topics": sorted({stream["topic"] for stream in ordered})[:PATTERNS_SHOWN_MAX],
        "lag_events": sum(stream["lag_events"] for stream in ordered),
        "lag_us": max((stream["lag_us"] for stream in ordered), default=0),
        "streams": len(ordered),
    }
    if with_streams:
        view["places"] = ordered
    return view


def _empty_stream(ref: pb.StreamRef) -> View:
    view: View = {"topic": ref.topic, "origin": ref.origin, "partition": ref.partition, "member": ""}
    return view | dict.fromkeys(("offset", "latest", "earliest", "lag_us"), 0)


def _take_stream(view: View, stream: pb.GroupStream) -> None:
    view["offset"] = max(view["offset"], stream.position.next_offset)
    view["latest"] = max(view["latest"], stream.latest_offset)
    view["earliest"] = max(view["earliest"], stream.earliest_offset)
    view["lag_us"] = max(view["lag_us"], stream.lag_us)
    view["member"] = view["member"] or stream.member


# --- keys ------------------------------------------------------------------------------------------------------------


def keys_view(records: Iterable[KeyRecord]) -> list[View]:
    """Without secrets, and without their hashes."""
    return [
        {
            "id": each.id,
            "name": each.name,
            "publish": list(each.publish),
            "subscribe": list(each.subscribe),
            "admin": each.admin,
            "created_s": each.created_s,
            "expires_s": each.expires_s,
        }
        for each in records
    ]


# --- pipelines -------------------------------------------------------------------------------------------------------


def pipelines_view(reports: Iterable[PipelineReport], now_us: int) -> View:
    return {
        "pipelines": [
            {
                "name": each.name,
                "pipeline": each.pipeline,
                "state": "lost" if each.is_lost(now_us) else each.state,
                "error": each.error,
                "started_us": each.started_us,
                "updated_us": each.updated_us,
                "rows": each.rows_total,
                "lag": each.lag_events,
                "queries": [
                    {
                        "query": query.query,
                        "batch": query.batch,
                        "rows": query.rows,
                        "rows_per_s": query.rows_per_s,
                        "batch_s": query.batch_s,
                        "lag": query.lag_events,
                    }
                    for query in each.queries
                ],
            }
            for each in reports
        ]
    }
