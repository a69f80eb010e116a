"""What ``weft later`` and ``weft schedule`` do."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err, out
from weft.cli.options import Where
from weft.cli.tables import human_bytes, human_time, print_json, print_table
from weft.client import Client, ScheduleInfo, Waiting
from weft.model import parse_event_id
from weft.visible import visible


def show_waiting(where: Where, json: bool) -> None:
    found, unreached = with_client(where, lambda client: client.later_everywhere())
    if json:
        print_json({"events": [_waiting_document(each) for each in found], "unreached": unreached})
        return
    if found:
        rows = [
            (str(each.id), visible(each.topic), human_time(each.due_us), human_bytes(len(each.event.payload)))
            for each in found
        ]
        print_table(("event", "topic", "due", "size"), rows, names=3)
    else:
        err.print("nothing waits")
    for address, reason in unreached.items():
        err.print(f"not asked: {escape(address)}: {escape(visible(reason))}", soft_wrap=True)


def cancel_waiting(where: Where, events: Sequence[str], json: bool) -> None:
    wanted = [parse_event_id(each) for each in events]

    async def work(client: Client) -> list[Waiting]:
        return [await client.cancel_later(each) for each in wanted]

    cancelled = with_client(where, work)
    if json:
        print_json([_waiting_document(each) for each in cancelled])
    else:
        out.print(f"{len(cancelled):,} cancelled")


def _waiting_document(waiting: Waiting) -> dict[str, Any]:
    event = waiting.event
    return {
        "event": str(waiting.id),
        "due": human_time(waiting.due_us),
        "topic": waiting.topic,
        "partition": waiting.partition,
        "key_base64": None if event.key is None else base64.b64encode(event.key).decode(),
        "headers": dict(event.headers or {}),
        "payload_base64": base64.b64encode(event.payload).decode(),
    }


# --- schedules ---------------------------------------------------------------------------------------------------


def add_schedule(where: Where, name: str, options: Mapping[str, Any], json: bool) -> None:
    _tell_next(name, with_client(where, lambda client: client.add_schedule(name, **options)), json)


def show_schedules(where: Where, json: bool) -> None:
    found = with_client(where, lambda client: client.schedules())
    if json:
        print_json([_schedule_document(each) for each in found])
    elif found:
        rows = [
            (each.name, f"{each.cron} {each.zone}", visible(each.topic), _state(each), _moment(each.last))
            for each in found
        ]
        print_table(("name", "cron", "topic", "next", "last"), rows, names=5)
    else:
        err.print("there are no schedules")


def show_schedule(where: Where, name: str, json: bool) -> None:
    found = with_client(where, lambda client: client.schedule(name))
    if json:
        print_json(_schedule_document(found))
        return
    rows = [
        ("name", found.name),
        ("cron", found.cron),
        ("zone", found.zone),
        ("topic", visible(found.topic)),
        ("next", _state(found)),
        ("last", f"{_moment(found.last)} {visible(found.last_node)}".strip()),
        ("catch-up", found.catch_up),
        ("made by", visible(found.by)),
        ("key", "" if found.key is None else visible(found.key.decode(errors="replace"))),
        *((f"header {visible(header)}", visible(text)) for header, text in sorted(found.headers.items())),
        ("payload", human_bytes(len(found.payload))),
    ]
    print_table(("what", "value"), rows, names=2)
    if found.payload:
        out.print(escape(visible(found.payload.decode(errors="replace"))), highlight=False, soft_wrap=True)


def remove_schedule(where: Where, name: str) -> None:
    with_client(where, lambda client: client.remove_schedule(name))
    out.print(f"schedule {escape(name)} removed")


def pause_schedule(where: Where, name: str) -> None:
    with_client(where, lambda client: client.pause_schedule(name))
    out.print(f"schedule {escape(name)} paused")


def resume_schedule(where: Where, name: str, json: bool) -> None:
    _tell_next(name, with_client(where, lambda client: client.resume_schedule(name)), json)


def _tell_next(name: str, moment: datetime | None, json: bool) -> None:
    if json:
        print_json({"name": name, "next": None if moment is None else moment.isoformat()})
    elif moment is None:
        out.print(f"schedule {escape(name)} is paused")
    else:
        out.print(f"schedule {escape(name)} fires next at {_moment(moment)}")


def _state(schedule: ScheduleInfo) -> str:
    if schedule.stopped:
        return f"stopped: {visible(schedule.stopped)}"
    return "paused" if schedule.paused else _moment(schedule.next)


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _schedule_document(schedule: ScheduleInfo) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "topic": schedule.topic,
        "key_base64": None if schedule.key is None else base64.b64encode(schedule.key).decode(),
        "headers": dict(schedule.headers),
        "payload_base64": base64.b64encode(schedule.payload).decode(),
        "catch_up": schedule.catch_up,
        "paused": schedule.paused,
        "by": schedule.by,
        "next": _moment(schedule.next) or None,
        "last": _moment(schedule.last) or None,
        "last_node": schedule.last_node or None,
        "stopped": schedule.stopped or None,
    }
