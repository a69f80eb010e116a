"""``weft trace``: the hops that one event took, as a table for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err, out
from weft.cli.options import Where
from weft.cli.tables import human_time, print_json, print_table
from weft.client.ways import EventDelivery, EventHop, EventWay, Moment
from weft.model import EventId, parse_event_id

Row = tuple[str, str, str, str]


def show_trace(where: Where, text: str, json: bool) -> None:
    event = parse_event_id(text)
    way = with_client(where, lambda client: client.trace(event))
    if json:
        print_json(_document(way))
        return
    if way.timestamp_us is None:
        err.print(escape(f"none of the nodes that answered has {event}"))
    else:
        print_facts_of(event, way)
    rows = [row for hop in way.hops for row in _rows(hop, way.timestamp_us)]
    print_table(("node", "what", "when", "after"), rows, names=3)


def print_facts_of(event: EventId, way: EventWay) -> None:
    assert way.timestamp_us is not None, "asked before"
    out.print(escape(f"event: {event}"), soft_wrap=True)
    out.print(escape(f"timestamp: {human_time(way.timestamp_us)}"), soft_wrap=True)
    if way.traceparent:
        out.print(escape(f"traceparent: {way.traceparent}"), soft_wrap=True)


def _rows(hop: EventHop, since_us: int | None) -> Iterator[Row]:
    name = hop.node_id
    if hop.trouble:
        yield name, f"did not answer: {hop.trouble}", "", ""
        return
    if hop.kept or hop.stored is not None:
        came = f" from {' or '.join(hop.sources)}" if hop.sources else ""
        yield name, f"stored{came}", *_times(hop.stored, hop.since_us, since_us)
        if not hop.kept:
            yield name, "no longer kept", "", ""
    else:
        yield name, "does not have it", "", ""
    for each in hop.deliveries:
        yield name, f"delivered to {_reader(each)}", *_times(each.when, hop.since_us, since_us)
    for group, handled in hop.groups:
        yield name, f"group {group} is done with it" if handled else f"group {group} is not done with it", "", ""
    for peer in hop.acked_by:
        yield name, f"passed on to {peer}, which has it", "", ""


def _reader(delivery: EventDelivery) -> str:
    if delivery.group:
        return f"group {delivery.group}, member {delivery.member}"
    return f"a subscriber of {delivery.pattern}" if delivery.pattern else "a subscriber"


def _times(moment: Moment | None, remembers_us: int, since_us: int | None) -> tuple[str, str]:
    if moment is None:
        return f"not known (it remembers since {human_time(remembers_us)})", ""
    when = human_time(moment.at_us)
    if not moment.is_exact:
        when = f"by {when}" if not moment.not_before_us else f"{human_time(moment.not_before_us)} to {when}"
    return when, "" if since_us is None else f"{(moment.at_us - since_us) / 1000:,.1f} ms"


def _document(way: EventWay) -> dict[str, Any]:
    return {
        "event": str(way.event),
        "timestamp": None if way.timestamp_us is None else human_time(way.timestamp_us),
        "traceparent": way.traceparent or None,
        "hops": [_hop_document(hop, way.timestamp_us) for hop in way.hops],
    }


def _hop_document(hop: EventHop, since_us: int | None) -> dict[str, Any]:
    return {
        "node": hop.node_id,
        "kept": hop.kept,
        "stored": _moment_document(hop.stored, since_us),
        "sources": hop.sources,
        "acked_by": hop.acked_by,
        "deliveries": [{**asdict(each), "when": _moment_document(each.when, since_us)} for each in hop.deliveries],
        "groups": [{"group": group, "handled": handled} for group, handled in hop.groups],
        "remembers_since": human_time(hop.since_us) if hop.since_us else None,
        "trouble": hop.trouble or None,
    }


def _moment_document(moment: Moment | None, since_us: int | None) -> dict[str, Any] | None:
    if moment is None:
        return None
    return {
        "at": human_time(moment.at_us),
        "not_before": human_time(moment.not_before_us) if moment.not_before_us else None,
        "after_us": None if since_us is None else moment.at_us - since_us,
    }
