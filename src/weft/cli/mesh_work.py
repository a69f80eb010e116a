"""What nodes tell, as tables for people and JSON for programs."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from weft.cli.connection import choose_target, with_client
from weft.cli.console import err, out
from weft.cli.options import Where
from weft.cli.tables import counted, human_bytes, human_time, print_json, print_table
from weft.client import GroupInfo, GroupStream, PeerInfo, Recipient, Status, TopicInfo
from weft.contexts import contexts_path
from weft.errors import UsageError
from weft.model import Position

US_PER_S = 1_000_000


# --- topics ------------------------------------------------------------------------------------------------------


def show_topics(where: Where, pattern: str, json: bool) -> None:
    found = sorted(with_client(where, lambda client: client.topics(pattern)), key=lambda each: each.topic)
    if json:
        print_json([_topic_document(each) for each in found])
    elif found:
        rows: list[tuple[str, ...]] = [
            (each.topic, f"{each.streams:,}", f"{each.events:,}", human_bytes(each.size_bytes), _last_time(each))
            for each in found
        ]
        headings: tuple[str, ...] = ("topic", "streams", "events", "bytes", "last event")
        if any(each.history_events for each in found):
            headings = (*headings, "in history", "since")
            rows = [(*row, *_history(each)) for row, each in zip(rows, found, strict=True)]
        print_table(headings, rows)
    else:
        err.print(f"no topic that you may read matches {escape(pattern)}")


def _topic_document(info: TopicInfo) -> dict[str, Any]:
    return {
        "topic": info.topic,
        "streams": info.streams,
        "events": info.events,
        "bytes": info.size_bytes,
        "last_time": _last_time(info) or None,
        "history_events": info.history_events,
        "history_since": human_time(info.history_since_us) if info.history_events else None,
    }


def _history(info: TopicInfo) -> tuple[str, str]:
    """What the node's archive table has, and how far it reaches back."""
    return (f"{info.history_events:,}", human_time(info.history_since_us)) if info.history_events else ("", "")


def _last_time(info: TopicInfo) -> str:
    return human_time(info.last_timestamp_us) if info.events else ""


# --- peers -------------------------------------------------------------------------------------------------------


def show_peers(where: Where, json: bool) -> None:
    found = sorted(with_client(where, lambda client: client.peers()), key=lambda each: each.node_id)
    if json:
        print_json([asdict(each) for each in found])
    elif found:
        headings = ("node", "state", "link", "addresses", "neighbours", "rtt", "queue", "lag")
        print_table(headings, [_peer_row(each) for each in found], names=5)
    else:
        err.print("this node knows no other node")


def _peer_row(peer: PeerInfo) -> tuple[str, ...]:
    """Round trip, queue and lag belong to a link; a node that is reached through others has none."""
    link = ("dialled" if peer.dialled_by_us else "accepted") if peer.connected else peer.trouble
    figures = (f"{peer.rtt_us / 1000:.1f} ms", f"{peer.queue_frames:,}", f"{peer.lag_events:,}")
    names = (peer.node_id or "not known yet", peer.state, link, ", ".join(peer.addresses), ", ".join(peer.neighbours))
    return (*names, *(figures if peer.connected else ("", "", "")))


# --- groups ------------------------------------------------------------------------------------------------------


def show_groups(where: Where, group: str, json: bool) -> None:
    found = _groups(where, group)
    if json:
        print_json([_group_document(each) for each in found])
    elif found:
        rows = [
            (
                each.group,
                ", ".join(each.members),
                f"{len(each.streams):,}",
                f"{sum(stream.lag_events for stream in each.streams):,}",
                _seconds(max((stream.lag_us for stream in each.streams), default=0)),
            )
            for each in found
        ]
        print_table(("group", "members", "streams", "events behind", "seconds behind"), rows, names=2)
    else:
        err.print("there are no groups that you may use")


def drop_group(where: Where, group: str) -> None:
    with_client(where, lambda client: client.drop_group(group))
    out.print(escape(f"group {group} is dropped"))


def show_lag(where: Where, group: str, json: bool) -> None:
    rows = [(each.group, stream) for each in _groups(where, group) for stream in each.streams]
    if json:
        print_json([{"group": name, **_stream_document(stream)} for name, stream in rows])
    elif rows:
        headings = ("group", "stream", "member", "epoch", "position", "end", "events behind", "seconds behind")
        print_table(headings, [_lag_row(name, stream) for name, stream in rows], names=3)
    else:
        err.print("no group that you may use has read anything yet")


def _groups(where: Where, group: str) -> list[GroupInfo]:
    found = sorted(with_client(where, lambda client: client.groups(group)), key=lambda each: each.group)
    if group and not found:
        raise UsageError(f"no group is called '{group}'")
    return found


def _lag_row(group: str, stream: GroupStream) -> tuple[str, ...]:
    position = stream.position
    return (
        group,
        str(position.stream),
        stream.member,
        str(position.epoch),
        str(position.offset),
        str(stream.latest_offset),
        f"{stream.lag_events:,}",
        _seconds(stream.lag_us),
    )


def _group_document(info: GroupInfo) -> dict[str, Any]:
    return {
        "group": info.group,
        "members": info.members,
        "lag_events": sum(stream.lag_events for stream in info.streams),
        "lag_s": max((stream.lag_us for stream in info.streams), default=0) / US_PER_S,
        "policy": None if info.policy is None else asdict(info.policy),
        "streams": [_stream_document(stream) for stream in info.streams],
    }


def _stream_document(stream: GroupStream) -> dict[str, Any]:
    return {
        **_place_document(stream.position),
        "earliest": stream.earliest_offset,
        "end": stream.latest_offset,
        "member": stream.member or None,
        "lag_events": stream.lag_events,
        "lag_s": stream.lag_us / US_PER_S,
    }


def _place_document(position: Position) -> dict[str, Any]:
    """Names and order as an event's identity has them."""
    return {
        "topic": position.stream.topic,
        "origin": position.stream.origin,
        "epoch": position.epoch,
        "partition": position.stream.partition,
        "offset": position.offset,
    }


def _seconds(lag_us: int) -> str:
    return f"{lag_us / US_PER_S:,.1f}"


# --- one topic, one node -----------------------------------------------------------------------------------------


def show_explanation(where: Where, topic: str, origin: str, json: bool) -> None:
    found = with_client(where, lambda client: client.explain(topic, origin))
    if json:
        print_json([asdict(each) for each in found])
        return
    readers, servers = ([each for each in found if each.serves is serves] for serves in (False, True))
    if readers:
        _print_recipients("node", readers)
    else:
        err.print(f"no subscriber would get {escape(topic)}: no node is interested")
    if servers:
        _print_recipients("served by", servers)
    else:
        err.print(f"this node knows nobody who serves requests to {escape(topic)}")


def _print_recipients(title: str, found: Iterable[Recipient]) -> None:
    rows = [(each.node_id, each.pattern, " > ".join(each.path), each.reason) for each in found]
    print_table((title, "because of", "path", "why"), rows, names=4)


def show_status(where: Where, json: bool) -> None:
    found = with_client(where, lambda client: client.status())
    if json:
        print_json(asdict(found))
    else:
        print_facts(_status_facts(found))


def _status_facts(status: Status) -> Iterable[tuple[str, str]]:
    yield "node", status.node_id
    yield "state", "draining" if status.draining else "up"
    yield "version", status.version
    yield "uptime", f"{status.uptime_s:,} s"
    yield "epoch", str(status.epoch)
    yield (
        "log",
        ", ".join((counted(status.streams, "stream"), counted(status.events, "event"), human_bytes(status.log_bytes))),
    )
    yield "mesh", f"{counted(status.nodes_known, 'node')} known, {status.peers_connected:,} linked"
    yield "listens on", ", ".join(status.listeners)
    if status.console:
        yield "console", status.console


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        out.print(f"{name}: {escape(value)}", soft_wrap=True)


# --- the console ---------------------------------------------------------------------------------------------------


def show_console(where: Where, open_it: bool) -> None:
    """The address on standard output, everything else on standard error."""
    status = with_client(where, lambda client: client.status())
    if not status.console:
        raise UsageError(f"node {status.node_id} has no console: its configuration says so (admin.console)")
    out.print(escape(status.console), soft_wrap=True)
    err.print(escape(_console_hint(where)), style="dim", soft_wrap=True)
    if status.console.startswith("https:"):
        hint = "its certificate is the mesh's own: a browser warns about it, unless it trusts the mesh's root"
        err.print(escape(hint), style="dim", soft_wrap=True)
    if open_it and not webbrowser.open(status.console):
        raise UsageError("no browser was found here: open the address yourself")


def _console_hint(where: Where) -> str:
    target = choose_target(where, os.environ)
    if target.context.insecure:
        return "it asks for no key: the node is insecure"
    return f"sign in with an API key: the one of your context is in {contexts_path(os.environ)}, as its token"


# --- leaving -----------------------------------------------------------------------------------------------------


def ask_to_leave(where: Where) -> None:
    left = with_client(where, lambda client: client.leave())
    out.print(escape(f"{left} leaves the mesh: it finishes what is under way and stops"))
